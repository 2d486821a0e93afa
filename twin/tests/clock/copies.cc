// Reading a matrix of half by tiles, as CANN's example of copies does. Buffers: the matrix.
#include "twin/tests/harness.h"

using namespace AscendC;

namespace {

constexpr int64_t kRoom = 160 * 1024;

}  // namespace

// p: rows of a core, columns, rows and columns of a tile, times, 1 for L1. Tiles are stored in a
// ring of places, and a round of the ring ends with a barrier.
KERNEL(read_tiles) {
  const int64_t rows = p[0], columns = p[1], tile_rows = p[2], tile_columns = p[3];
  const bool to_l1 = p[5] != 0;
  const int64_t bytes = (tile_rows * tile_columns * 2 + 31) / 32 * 32;
  const int64_t places = kRoom / bytes < 1024 ? kRoom / bytes : 1024;
  auto from = harness::Global<half>(g[0]);
  int64_t tile = 0;
  for (int64_t time = 0; time < p[4]; ++time) {
    for (int64_t row = 0; row < rows; row += tile_rows) {
      for (int64_t column = 0; column < columns; column += tile_columns) {
        const int64_t here = columns - column < tile_columns ? columns - column : tile_columns;
        const int64_t at = (GetBlockIdx() * rows + row) * columns + column;
        const auto address = static_cast<uint32_t>(tile % places * bytes);
        if (to_l1) {
          LocalTensor<half> to(TPosition::A1, address, static_cast<uint32_t>(bytes / 2));
          Nd2NzParams params(1, tile_rows, here, 0, columns, tile_rows, 1, 0);
          DataCopy(to, from[at], params);
        } else {
          LocalTensor<half> to(TPosition::VECIN, address, static_cast<uint32_t>(bytes / 2));
          DataCopyExtParams params(static_cast<uint16_t>(tile_rows),
                                   static_cast<uint32_t>(here * 2),
                                   static_cast<uint32_t>((columns - here) * 2), 0, 0);
          DataCopyPad(to, from[at], params, DataCopyPadExtParams<half>(false, 0, 0, 0));
        }
        if (++tile % places == 0) PipeBarrier<PIPE_MTE2>();
      }
    }
  }
  PipeBarrier<PIPE_MTE2>();
}
