// CANN's Matmul object is a library of its own, which the twin does not have.
#error "lib/matmul_intf.h: the twin has no Matmul object; it runs kernels that use Mmad and Fixpipe"
