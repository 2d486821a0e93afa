#pragma once

#include "graph/error_codes.h"
