#include "twin/clock/price.h"

#include <algorithm>

namespace twin::clock {
namespace {

const VectorRate& FindRate(const std::string& name) {
  const std::string word = " " + name + " ";
  for (const VectorRate& rate : kVectorRates) {
    if (std::string(rate.names).find(word) != std::string::npos) return rate;
  }
  return kUsualRate;
}

double RowsOf(const Op& op, const GmAccess* accesses) {
  double rows = 0;
  for (int i = 0; i < op.accesses; ++i) rows += accesses[i].rows;
  return rows;
}

double BytesOf(const Op& op, const GmAccess* accesses) {
  double bytes = 0;
  for (int i = 0; i < op.accesses; ++i) {
    bytes += static_cast<double>(accesses[i].rows) * accesses[i].row_bytes;
  }
  return bytes;
}

// A row that begins off a multiple of 32 bytes, of rows long enough to matter.
bool Unaligned(const Op& op, const GmAccess* accesses) {
  for (int i = 0; i < op.accesses; ++i) {
    const GmAccess& a = accesses[i];
    if (a.begin % 32 != 0 || (a.rows > 1 && a.pitch % 32 != 0)) return true;
  }
  return false;
}

}  // namespace

Prices::Prices(const Options& options, const LaunchRecord& record) : costs_(options.costs) {
  for (const Place& place : record.places) {
    rates_.push_back(&FindRate(place.name));
    merges_.push_back(place.name == "MrgSort");
  }
}

Price Prices::Of(const Op& op, const GmAccess* accesses) const {
  switch (op.pipe) {
    case kV:
      return Vector(op);
    case kM:
      return Cube(op);
    case kMte1:
      return Mte1(op);
    case kMte2:
      return Load(op, accesses);
    case kMte3:
      return Store(op, accesses);
    case kFix:
      return Fix(op, accesses);
    default:
      return {};
  }
}

Price Prices::Vector(const Op& op) const {
  const VectorRate& rate = *rates_[op.site];
  const double each = op.element <= 2 ? rate.narrow : rate.wide;
  double repeats = op.repeats;
  Price price;
  if (merges_[op.site]) {
    price.ideal = op.written_bytes / 8.0 / 2.0;  // pairs of 8 bytes, 2 a cycle
    repeats = 0;
  } else if (repeats == 0) {
    // A copy inside UB, or a helper that counts no repeats.
    repeats = (std::max(op.read_bytes, op.written_bytes) + 255) / 256;
  }
  price.ideal += repeats * each;
  const double conflicts = rate.banks ? op.conflicts * each * costs_.vector_bank_conflict : 0;
  price.busy = costs_.vector_start + price.ideal + conflicts + costs_.vector_end;
  return price;
}

Price Prices::Cube(const Op& op) const {
  Price price;
  // Fractals of 16 x 16 and 32 bytes; products of floats go through at half the rate of fractals.
  price.ideal = op.repeats * (op.element == 4 ? 2.0 : 1.0);
  price.busy = costs_.mmad_start + price.ideal;
  return price;
}

Price Prices::Mte1(const Op& op) const {
  Price price;
  const double bytes = std::max(op.read_bytes, op.written_bytes);
  const double rate = op.to == Memory::kL0a   ? costs_.l1_to_l0a
                      : op.to == Memory::kL0b ? costs_.l1_to_l0b
                                              : costs_.l1_to_table;
  price.ideal = bytes / rate;
  price.busy = costs_.mte1_start + price.ideal;
  return price;
}

Price Prices::Load(const Op& op, const GmAccess* accesses) const {
  Price price;
  if (op.accesses == 0) {
    // A fill of L1.
    price.ideal = op.written_bytes / costs_.gm_to_l1;
    price.busy = costs_.dma_start + price.ideal;
    return price;
  }
  const bool to_ub = op.to == Memory::kUb;
  price.rate = to_ub ? costs_.gm_to_ub : costs_.gm_to_l1;
  price.ideal = BytesOf(op, accesses) / price.rate;
  double busy =
      std::max(price.ideal, RowsOf(op, accesses) * (to_ub ? costs_.ub_row : costs_.l1_row));
  if (Unaligned(op, accesses)) {
    const double factor = to_ub ? costs_.unaligned_ub : costs_.unaligned_l1;
    busy = std::max(busy, price.ideal * factor);
    price.stretch = factor;
  }
  price.busy = costs_.dma_start + busy;
  price.latency = costs_.load_latency;
  return price;
}

Price Prices::Store(const Op& op, const GmAccess* accesses) const {
  Price price;
  price.rate = op.from == Memory::kUb ? costs_.ub_to_gm : costs_.l1_to_gm;
  price.ideal = BytesOf(op, accesses) / price.rate;
  price.busy = costs_.dma_start + std::max(price.ideal, RowsOf(op, accesses) * costs_.store_row);
  price.latency = costs_.store_latency;
  return price;
}

Price Prices::Fix(const Op& op, const GmAccess* accesses) const {
  Price price;
  if (op.to == Memory::kFixbuf) {
    price.ideal = std::max(op.read_bytes, op.written_bytes) / costs_.l1_to_table;
  } else {
    price.ideal = op.read_bytes / 4.0 / costs_.fix_to_l1;
    if (op.accesses > 0) {
      price.rate = costs_.fix_to_gm;
      // The rate is that of a whole stage, so it has the latency in it.
      price.ideal = std::max(price.ideal, BytesOf(op, accesses) / price.rate);
    }
  }
  price.busy = costs_.fix_start + price.ideal;
  return price;
}

}  // namespace twin::clock
