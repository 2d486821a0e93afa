#include "twin/device/missing.h"

#include <new>

#include "twin/device/instr.h"
#include "twin/device/launch_state.h"

namespace twin {

namespace {

constexpr uint64_t kMostOnChip = MemoryBytes(Hardware::L1);

// Pages that nobody touches cost nothing. Images of on-chip memories are used again and again.
ImageBytes ZeroBytes(uint64_t size, bool global) {
  std::vector<ImageBytes>& spare = current_launch->spare_images;
  if (!global && !spare.empty()) {
    ImageBytes bytes = std::move(spare.back());
    spare.pop_back();
    return bytes;
  }
  ImageBytes bytes(static_cast<uint8_t*>(std::calloc(size, 1)), std::free);
  if (bytes == nullptr) throw std::bad_alloc();
  return bytes;
}

}  // namespace

MissingBytes::Image& MissingBytes::Of(Shadow* shadow, GlobalBuffer* buffer) {
  for (Image& image : images_) {
    if (image.shadow == shadow) return image;
  }
  const uint64_t size = buffer != nullptr ? buffer->bytes + kBlockBytes : kMostOnChip;
  images_.push_back({shadow, buffer, ZeroBytes(size, buffer != nullptr), size, 0, size, 0});
  return images_.back();
}

MissingBytes::~MissingBytes() {
  TakeBack();
  for (Image& image : images_) {
    if (image.buffer != nullptr || current_launch == nullptr) continue;
    if (image.used_end > image.used_begin) {
      std::memset(image.bytes.get() + image.used_begin, 0, image.used_end - image.used_begin);
    }
    current_launch->spare_images.push_back(std::move(image.bytes));
  }
}

void MissingBytes::Add(Shadow* shadow, GlobalBuffer* buffer, uint64_t granule, uint32_t mask) {
  Image& image = Of(shadow, buffer);
  const uint64_t begin = granule * kBlockBytes;
  for (uint32_t byte = 0; byte < kBlockBytes; ++byte) {
    if (mask >> byte & 1) image.bytes.get()[begin + byte] = 0xff;
  }
  image.used_begin = std::min(image.used_begin, begin);
  image.used_end = std::max(image.used_end, begin + kBlockBytes);
  shadow->at(granule).written |= mask;
  lent_.push_back({shadow, granule, mask});
}

void MissingBytes::TakeBack() {
  for (const Lent& lent : lent_) lent.shadow->at(lent.granule).written &= ~lent.mask;
  lent_.clear();
}

void MissingBytes::Written(Shadow* shadow, GlobalBuffer* buffer, uint64_t begin, uint64_t end) {
  TakeBack();
  Image& image = Of(shadow, buffer);
  image.begin = std::min(image.begin, begin);
  image.end = std::max(image.end, end);
  image.used_begin = std::min(image.used_begin, begin);
  image.used_end = std::max(image.used_end, end);
}

void Instr::Carry(Shadow* shadow, int operand, const Conflict& conflict) {
  if (missing_ == nullptr) {
    const uint32_t origin = shadow->Origin(conflict.granule);
    missing_ = std::make_unique<MissingBytes>(origin != 0 ? origin : ticket_.site);
  }
  const GlobalView* global = operands_[operand].global;
  missing_->Add(shadow, global != nullptr ? global->buffer : nullptr, conflict.granule,
                conflict.bytes);
}

uint8_t* Instr::ImageAddress(int operand) const {
  const Operand& o = operands_[operand];
  if (o.global == nullptr) {
    return missing_->ImageOf(&UseMemory(*core_, o.local->memory()).shadow, nullptr) +
           o.local->address;
  }
  GlobalBuffer* const buffer = o.global->buffer;
  return missing_->ImageOf(&buffer->shadow, buffer) + (o.global->address - buffer->address);
}

// The images say this of the places that were written.
void Instr::MarkMissing() {
  for (MissingBytes::Image& image : missing_->images()) {
    const uint8_t* const bytes = image.bytes.get();
    for (uint64_t at = image.begin; at < image.end;) {
      uint64_t next = 0;
      if (at + 8 <= image.end) std::memcpy(&next, bytes + at, 8);
      if (next == 0 && at + 8 <= image.end) {
        at += 8;
        continue;
      }
      uint64_t end = at;
      while (end < image.end && bytes[end] != 0) ++end;
      if (end == at) {
        ++at;
        continue;
      }
      image.shadow->MarkMissing(at, end - at, missing_->origin());
      if (image.buffer != nullptr) {
        image.buffer->carried.push_back({at, end, ticket_.site, missing_->origin(), core_->index});
      }
      at = end;
    }
  }
}

// The text of an error about bytes that hold no value.
std::string Instr::Uninitialised(int operand, const Conflict& conflict,
                                 const std::string& bytes) const {
  const Operand& o = operands_[operand];
  const Shadow& shadow =
      o.global != nullptr ? o.global->buffer->shadow : UseMemory(*core_, o.local->memory()).shadow;
  const uint32_t origin = shadow.Origin(conflict.granule);
  const bool travels = carries_ >> operand & 1;
  const std::string hint =
      travels ? Switch("CARRY_UNINITIALISED", "an error only where the value counts")
              : Switch("WARN_UNINITIALISED", "a warning");
  if (origin == 0) return "uninitialised read: nothing was written to " + bytes + hint;
  const Site& site = core_->launch->sites.at(origin);
  return Format(
             "uninitialised read: no value is in %s, since %s at %s:%d read bytes that nothing "
             "was written to",
             bytes.c_str(), site.name, site.file, site.line) +
         hint;
}

void CheckCarriedEnd(LaunchState& launch) {
  for (const auto& buffer : launch.buffers) {
    if (buffer->role == Role::kWorkspace) continue;
    // Where nobody says what a buffer is for: memory that holds nothing before the kernel, which
    // then reads it, is as a rule a workspace.
    const bool workspace = buffer->role == Role::kInOut && buffer->empty_at_start && buffer->read;
    for (const CarriedBytes& c : buffer->carried) {
      if (buffer->shadow.Unwritten(c.begin, c.end - c.begin) == 0) continue;
      const Site& store = launch.sites.at(c.site);
      const Site& origin = launch.sites.at(c.origin);
      std::string message = Format(
          "bytes [%llu, %llu) of %s hold no value when the kernel has ended: what was stored there "
          "comes from bytes that nothing was written to when %s at %s:%d read them",
          static_cast<unsigned long long>(c.begin), static_cast<unsigned long long>(c.end),
          buffer->name.c_str(), origin.name, origin.file, origin.line);
      if (launch.options.warn_uninitialised || workspace) {
        if (workspace) {
          message += Format("; the kernel reads %s itself, so it is taken for a workspace",
                            buffer->name.c_str());
        }
        Warn("no value in an output", {store.file, store.line},
             std::string(store.name) + ": " + message);
        break;
      }
      const std::string place = PlaceName(launch.cores[c.core].get(), {store.file, store.line});
      throw Error(place + ": " + store.name + ": uninitialised output: " + message +
                  (launch.options.names_switches
                       ? "; ASCENDC_TWIN_WARN_UNINITIALISED=1 makes it a warning"
                       : ""));
    }
  }
}

}  // namespace twin
