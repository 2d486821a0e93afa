// CANN's launches of kernels on a host stand in this header, which examples include where
// ASCENDC_CPU_DEBUG is defined. Here kernels are launched by ICPU_RUN_KF, of tikicpulib.h.
#pragma once
