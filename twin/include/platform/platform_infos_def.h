// CANN's host side knows this of the chip; some kernels include it and use nothing of it.
#pragma once

namespace fe {

class PlatFormInfos;
class OptionalInfos;

}  // namespace fe
