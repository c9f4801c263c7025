#include "vmm/virtio/pci_transport.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "vmm/base/checked.h"
#include "vmm/base/log.h"
#include "vmm/base/status_macros.h"

namespace sluice::virtio {
namespace {

constexpr uint64_t kTransportFeatures = kFeatureVersion1 | kFeatureIndirectDescriptors | kFeatureEventIdx;

void StoreLe(uint64_t value, absl::Span<uint8_t> to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = i < 8 ? static_cast<uint8_t>(value >> (8 * i)) : 0;
}

uint64_t LoadLe(absl::Span<const uint8_t> from) {
  uint64_t value = 0;
  for (size_t i = 0; i < from.size() && i < 8; ++i) value |= uint64_t{from[i]} << (8 * i);
  return value;
}

// `value` in the 32-bit half of `field` that starts `high` bytes in; or all of it for an 8-byte write.
void SetPart(uint64_t& field, size_t size, bool high, uint64_t value) {
  if (size == 8) {
    field = value;
  } else if (high) {
    field = (field & 0xffffffff) | (value << 32);
  } else {
    field = (field & ~uint64_t{0xffffffff}) | value;
  }
}

uint32_t SelectWord(uint64_t features, uint32_t select) {
  return select < 2 ? static_cast<uint32_t>(features >> (32 * select)) : 0;
}

pci::PciIdentity IdentityOf(const Device& device) {
  return {.vendor_id = kPciVendorId,
          .device_id = static_cast<uint16_t>(kPciDeviceIdBase + device.device_id()),
          .revision = 1,
          .class_code = device.pci_class(),
          .subsystem_vendor_id = kPciVendorId,
          .subsystem_id = 0x1100};
}

}  // namespace

absl::StatusOr<std::unique_ptr<PciTransport>> PciTransport::Create(std::unique_ptr<Device> device, Options options) {
  const auto sizes = device->queue_max_sizes();
  if (sizes.empty() || sizes.size() > kMaxQueues) {
    return absl::InvalidArgumentError(absl::StrCat(options.name, ": ", sizes.size(), " queues"));
  }
  for (const uint16_t size : sizes) {
    if (!IsPowerOfTwo(size) || size > kMaxQueueSize) {
      return absl::InvalidArgumentError(absl::StrCat(options.name, ": queue size ", size));
    }
  }
  if (options.post == nullptr) return absl::InvalidArgumentError(absl::StrCat(options.name, ": no loop to post to"));
  std::unique_ptr<PciTransport> transport(new PciTransport(std::move(device), std::move(options)));
  SLUICE_RETURN_IF_ERROR(transport->SetUp());
  return transport;
}

PciTransport::PciTransport(std::unique_ptr<Device> device, Options options)
    : PciDevice(options.name, IdentityOf(*device)),
      device_(std::move(device)),
      options_(std::move(options)),
      offered_features_(device_->features() | kTransportFeatures),
      queue_count_(static_cast<uint16_t>(device_->queue_max_sizes().size())),
      notify_posted_(queue_count_),
      active_queues_(queue_count_, false),
      self_(std::make_shared<PciTransport*>(this)) {
  MutexLock lock(&mu_);
  ClearRegisters();
}

PciTransport::~PciTransport() = default;

absl::Status PciTransport::SetUp() {
  using pci::BarKind;
  SLUICE_RETURN_IF_ERROR(AddBar({.index = kRegisterBar, .kind = BarKind::kMemory32, .size = kRegisterBarBytes}));
  SLUICE_RETURN_IF_ERROR(AddBar({.index = kMsixBar, .kind = BarKind::kMemory32, .size = kMsixBarBytes}));
  SLUICE_RETURN_IF_ERROR(AddVirtioCapability(kCapCommon, kRegisterBar, 0, kCommonOffset, kCommonBytes).status());
  SLUICE_RETURN_IF_ERROR(AddVirtioCapability(kCapNotify, kRegisterBar, 0, kNotifyOffset,
                                             queue_count_ * kNotifyMultiplier, {kNotifyMultiplier})
                             .status());
  SLUICE_RETURN_IF_ERROR(AddVirtioCapability(kCapIsr, kRegisterBar, 0, kIsrOffset, 1).status());
  SLUICE_RETURN_IF_ERROR(
      AddVirtioCapability(kCapDevice, kRegisterBar, 0, kDeviceConfigOffset, kDeviceConfigBytes).status());
  SLUICE_ASSIGN_OR_RETURN(access_capability_, AddVirtioCapability(kCapPciAccess, 0, 0, 0, 0, {0}));
  SetConfigWritable8(access_capability_ + kPciCapBar, 0xff);
  SetConfigWritable32(access_capability_ + kPciCapOffset, 0xffffffff);
  SetConfigWritable32(access_capability_ + kPciCapSize, 0xffffffff);
  SetConfigWritable32(access_capability_ + kPciCapAccessData, 0xffffffff);
  SLUICE_RETURN_IF_ERROR(AddSharedMemory());
  return EnableMsix(static_cast<uint16_t>(queue_count_ + 1), kMsixBar, 0, kMsixPbaOffset, options_.notifier);
}

absl::StatusOr<uint8_t> PciTransport::AddVirtioCapability(uint8_t type, uint8_t bar, uint8_t id, uint32_t offset,
                                                          uint32_t size, absl::Span<const uint32_t> tail) {
  std::vector<uint8_t> capability(kPciCapBytes + 4 * tail.size());
  const auto bytes = absl::MakeSpan(capability);
  bytes[kPciCapLength] = static_cast<uint8_t>(capability.size());
  bytes[kPciCapType] = type;
  bytes[kPciCapBar] = bar;
  bytes[kPciCapId] = id;
  StoreLe(offset, bytes.subspan(kPciCapOffset, 4));
  StoreLe(size, bytes.subspan(kPciCapSize, 4));
  for (size_t i = 0; i < tail.size(); ++i) StoreLe(tail[i], bytes.subspan(kPciCapBytes + 4 * i, 4));
  return AddCapability(pci::kCapabilityVendor, bytes.subspan(2));
}

absl::Status PciTransport::AddSharedMemory() {
  uint64_t end = 0;
  regions_ = device_->shared_memory_regions();
  for (const SharedMemoryRegion& region : regions_) {
    const auto next = CheckedAdd(end, region.size);
    if (region.size == 0 || region.size % kPageSize != 0 || !next.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name(), ": shared-memory region ", region.id, " of ", memory::Hex(region.size), " bytes"));
    }
    SLUICE_RETURN_IF_ERROR(
        AddVirtioCapability(kCapSharedMemory, kSharedMemoryBar, region.id, static_cast<uint32_t>(end),
                            static_cast<uint32_t>(region.size),
                            {static_cast<uint32_t>(end >> 32), static_cast<uint32_t>(region.size >> 32)})
            .status());
    end = *next;
  }
  if (end == 0) return absl::OkStatus();
  uint64_t size = kPageSize;
  while (size < end && size < (uint64_t{1} << 62)) size *= 2;
  return AddBar({.index = kSharedMemoryBar, .kind = pci::BarKind::kMemory64Prefetchable, .size = size});
}

std::optional<PciTransport::RegionPlace> PciTransport::SharedMemory(uint8_t id) const {
  uint64_t offset = 0;
  for (const SharedMemoryRegion& region : regions_) {
    if (region.id == id) return RegionPlace{offset, region.size};
    offset += region.size;
  }
  return std::nullopt;
}

uint8_t PciTransport::device_status() const {
  MutexLock lock(&mu_);
  return status_;
}

// ---------------------------------------------------------------------------------------------------- registers

void PciTransport::BarRead(uint8_t bar, uint64_t offset, absl::Span<uint8_t> to) {
  std::fill(to.begin(), to.end(), 0xff);
  if (bar == kMsixBar) return MsixRead(offset, to);
  // The shared-memory BAR is backed by memslots where the device mapped something; elsewhere nobody answers.
  if (bar != kRegisterBar || to.empty() || (offset >> 12) != ((offset + to.size() - 1) >> 12)) return;
  switch (offset & ~uint64_t{0xfff}) {
    case kCommonOffset:
      return ReadCommon(offset, to);
    case kIsrOffset:
      std::fill(to.begin(), to.end(), 0);
      if (offset == kIsrOffset) to[0] = isr_.exchange(0);  // reading clears it
      return;
    case kDeviceConfigOffset:
      return device_->ReadConfig(offset - kDeviceConfigOffset, to);
    default:
      std::fill(to.begin(), to.end(), 0);
      return;
  }
}

void PciTransport::BarWrite(uint8_t bar, uint64_t offset, absl::Span<const uint8_t> from) {
  if (bar == kMsixBar) return MsixWrite(offset, from);
  if (bar != kRegisterBar || from.empty() || (offset >> 12) != ((offset + from.size() - 1) >> 12)) return;
  switch (offset & ~uint64_t{0xfff}) {
    case kCommonOffset:
      return WriteCommon(offset, from);
    case kDeviceConfigOffset:
      return device_->WriteConfig(offset - kDeviceConfigOffset, from);
    case kNotifyOffset: {
      const uint64_t queue = (offset - kNotifyOffset) / kNotifyMultiplier;
      if (queue < queue_count_) Notify(static_cast<uint16_t>(queue));
      return;
    }
    default:
      return;
  }
}

void PciTransport::ReadCommon(uint64_t offset, absl::Span<uint8_t> to) {
  std::array<uint8_t, kCommonBytes> image = {};
  const auto put = [&image](uint32_t at, size_t size, uint64_t value) {
    StoreLe(value, absl::MakeSpan(image).subspan(at, size));
  };
  {
    MutexLock lock(&mu_);
    put(kCommonDeviceFeatureSelect, 4, device_feature_select_);
    put(kCommonDeviceFeature, 4, SelectWord(offered_features_, device_feature_select_));
    put(kCommonDriverFeatureSelect, 4, driver_feature_select_);
    put(kCommonDriverFeature, 4, SelectWord(driver_features_, driver_feature_select_));
    put(kCommonConfigMsixVector, 2, config_vector_);
    put(kCommonNumQueues, 2, queue_count_);
    put(kCommonDeviceStatus, 1, status_);
    put(kCommonConfigGeneration, 1, config_generation_.load());
    put(kCommonQueueSelect, 2, queue_select_);
    // A queue that does not exist has size 0 (section 4.1.4.3.1).
    if (queue_select_ < queue_count_) {
      const QueueRegisters& queue = queues_[queue_select_];
      put(kCommonQueueSize, 2, queue.size);
      put(kCommonQueueMsixVector, 2, queue.vector);
      put(kCommonQueueEnable, 2, queue.enabled ? 1 : 0);
      put(kCommonQueueNotifyOff, 2, queue_select_);
      put(kCommonQueueDesc, 8, queue.descriptors);
      put(kCommonQueueDriver, 8, queue.driver_area);
      put(kCommonQueueDevice, 8, queue.device_area);
    }
  }
  for (size_t i = 0; i < to.size(); ++i) to[i] = offset + i < image.size() ? image[offset + i] : 0;
}

void PciTransport::WriteCommon(uint64_t offset, absl::Span<const uint8_t> from) {
  const uint64_t value = LoadLe(from);
  const size_t size = from.size();
  if (offset == kCommonDeviceStatus) {
    if (size == 1) WriteStatus(static_cast<uint8_t>(value));
    return;
  }
  MutexLock lock(&mu_);
  if (resetting_) return;
  // Fields are accessed in their own width (section 4.1.3.1); writes of any other are not understood.
  if (offset == kCommonDeviceFeatureSelect && size == 4) {
    device_feature_select_ = static_cast<uint32_t>(value);
  } else if (offset == kCommonDriverFeatureSelect && size == 4) {
    driver_feature_select_ = static_cast<uint32_t>(value);
  } else if (offset == kCommonDriverFeature && size == 4) {
    if ((status_ & kStatusFeaturesOk) != 0 || driver_feature_select_ > 1) return;
    SetPart(driver_features_, size, driver_feature_select_ == 1, value);
  } else if (offset == kCommonConfigMsixVector && size == 2) {
    config_vector_ = value < msix()->vectors() ? static_cast<uint16_t>(value) : kNoVector;
  } else if (offset == kCommonQueueSelect && size == 2) {
    queue_select_ = static_cast<uint16_t>(value);
  } else if (offset >= kCommonQueueSize) {
    WriteQueueRegister(static_cast<uint32_t>(offset), size, value);
  }
}

void PciTransport::WriteQueueRegister(uint32_t offset, size_t size, uint64_t value) {
  if (queue_select_ >= queue_count_) return;
  QueueRegisters& queue = queues_[queue_select_];
  if (offset == kCommonQueueMsixVector && size == 2) {
    queue.vector = value < msix()->vectors() ? static_cast<uint16_t>(value) : kNoVector;
    return;
  }
  // The rest is fixed once the queue is enabled, and queues are enabled before DRIVER_OK.
  if (queue.enabled || (status_ & kStatusDriverOk) != 0) return;
  const bool half = size == 4;
  if (offset == kCommonQueueSize && size == 2) {
    if (IsPowerOfTwo(value) && value <= device_->queue_max_sizes()[queue_select_]) {
      queue.size = static_cast<uint16_t>(value);
    }
  } else if (offset == kCommonQueueEnable && size == 2) {
    if (value == 1) queue.enabled = true;  // the addresses are checked at DRIVER_OK
  } else if ((offset == kCommonQueueDesc && (half || size == 8)) || (offset == kCommonQueueDesc + 4 && half)) {
    SetPart(queue.descriptors, size, offset != kCommonQueueDesc, value);
  } else if ((offset == kCommonQueueDriver && (half || size == 8)) || (offset == kCommonQueueDriver + 4 && half)) {
    SetPart(queue.driver_area, size, offset != kCommonQueueDriver, value);
  } else if ((offset == kCommonQueueDevice && (half || size == 8)) || (offset == kCommonQueueDevice + 4 && half)) {
    SetPart(queue.device_area, size, offset != kCommonQueueDevice, value);
  }
}

void PciTransport::ClearRegisters() {
  status_ = 0;
  activated_ = false;
  resetting_ = false;
  device_feature_select_ = 0;
  driver_feature_select_ = 0;
  driver_features_ = 0;
  config_vector_ = kNoVector;
  queue_select_ = 0;
  queues_.assign(queue_count_, QueueRegisters());
  const auto sizes = device_->queue_max_sizes();
  for (size_t i = 0; i < queues_.size(); ++i) queues_[i].size = sizes[i];
  isr_ = 0;
}

void PciTransport::WriteStatus(uint8_t value) {
  uint64_t generation = 0;
  bool reset = false;
  uint64_t features = 0;
  std::vector<QueueRegisters> queues;
  {
    MutexLock lock(&mu_);
    if (resetting_) return;
    if (value == 0) {
      generation = ++generation_;
      if (!activated_) {
        ClearRegisters();
        return;
      }
      resetting_ = true;
      reset = true;
    } else {
      // A driver must not clear bits (section 2.1.1); one that does is not heard. NEEDS_RESET is ours.
      const uint8_t set = value & ~status_;
      status_ |= set & (kStatusAcknowledge | kStatusDriver | kStatusFailed);
      if ((set & kStatusFeaturesOk) != 0 && (status_ & kStatusDriver) != 0) {
        // Unset when read back: we do not accept these features (section 3.1.1).
        const bool accepted =
            (driver_features_ & ~offered_features_) == 0 && (driver_features_ & kFeatureVersion1) != 0;
        if (accepted) status_ |= kStatusFeaturesOk;
      }
      if ((set & kStatusDriverOk) == 0 || (status_ & kStatusFeaturesOk) == 0 || (status_ & kStatusFailed) != 0) return;
      status_ |= kStatusDriverOk;
      activated_ = true;
      generation = generation_;
      features = driver_features_;
      queues = queues_;
    }
  }
  // Posted without the lock. Should two vCPUs race here, the generation sorts out which of the two counts.
  if (reset) {
    PostReset(generation);
  } else {
    PostActivation(generation, features, std::move(queues));
  }
}

// ---------------------------------------------------------------------------------------------------- loop thread

void PciTransport::PostActivation(uint64_t generation, uint64_t features, std::vector<QueueRegisters> queues) {
  options_.post([weak = std::weak_ptr<PciTransport*>(self_), generation, features, queues = std::move(queues)] {
    if (const auto self = weak.lock()) (*self)->ActivateOnLoop(generation, features, queues);
  });
}

void PciTransport::PostReset(uint64_t generation) {
  options_.post([weak = std::weak_ptr<PciTransport*>(self_), generation] {
    if (const auto self = weak.lock()) (*self)->ResetOnLoop(generation);
  });
}

void PciTransport::ActivateOnLoop(uint64_t generation, uint64_t features, const std::vector<QueueRegisters>& queues) {
  {
    MutexLock lock(&mu_);
    if (generation_ != generation) return;  // reset meanwhile
  }
  Activation activation;
  activation.memory = options_.memory;
  activation.features = features;
  activation.interrupt = this;
  activation.queues.resize(queue_count_);
  for (size_t i = 0; i < queues.size(); ++i) {
    if (!queues[i].enabled) continue;
    auto queue = Queue::Create(options_.memory, {.size = queues[i].size,
                                                 .descriptors = memory::GuestAddress(queues[i].descriptors),
                                                 .driver_area = memory::GuestAddress(queues[i].driver_area),
                                                 .device_area = memory::GuestAddress(queues[i].device_area),
                                                 .event_idx = (features & kFeatureEventIdx) != 0,
                                                 .indirect = (features & kFeatureIndirectDescriptors) != 0});
    if (!queue.ok()) {
      SLUICE_LOG_GUEST(warn, "{}: queue {}: {}", name(), i, queue.status().ToString());
      return SetNeedsReset();
    }
    activation.queues[i] = *std::move(queue);
  }
  active_ = true;
  if (absl::Status status = device_->Activate(std::move(activation)); !status.ok()) {
    SLUICE_LOG_GUEST(warn, "{}: {}", name(), status.ToString());
    return SetNeedsReset();
  }
  for (uint16_t i = 0; i < queue_count_; ++i) active_queues_[i] = queues[i].enabled;
  for (uint16_t i = 0; i < queue_count_; ++i) NotifyFromLoop(i);  // what came before we listened
}

void PciTransport::ResetOnLoop(uint64_t generation) {
  if (active_) device_->Reset();
  active_ = false;
  active_queues_.assign(queue_count_, false);
  MutexLock lock(&mu_);
  if (generation_ == generation) ClearRegisters();
}

void PciTransport::Notify(uint16_t queue) {
  if (queue >= queue_count_ || notify_posted_[queue].exchange(true)) return;
  options_.post([weak = std::weak_ptr<PciTransport*>(self_), queue] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    (*self)->notify_posted_[queue].store(false);
    (*self)->NotifyFromLoop(queue);
  });
}

void PciTransport::NotifyFromLoop(uint16_t queue) {
  if (queue >= queue_count_ || !active_queues_[queue]) return;
  notifies_.fetch_add(1, std::memory_order_relaxed);
  device_->QueueNotified(queue);
}

// ---------------------------------------------------------------------------------------------------- interrupts

void PciTransport::SignalQueue(uint16_t index) {
  if (index >= queue_count_) return;
  uint16_t vector;
  {
    MutexLock lock(&mu_);
    vector = queues_[index].vector;
  }
  isr_.fetch_or(kIsrQueue);
  if (vector != kNoVector) msix()->Signal(vector);
}

void PciTransport::BumpConfigGeneration() {
  config_generation_.fetch_add(1);
}

void PciTransport::SignalConfig() {
  uint16_t vector;
  {
    MutexLock lock(&mu_);
    // The device MUST NOT send it before DRIVER_OK (section 2.3.1: no notifications either).
    if ((status_ & kStatusDriverOk) == 0) return;
    vector = config_vector_;
  }
  isr_.fetch_or(kIsrConfig);
  if (vector != kNoVector) msix()->Signal(vector);
}

void PciTransport::SetNeedsReset() {
  {
    MutexLock lock(&mu_);
    if (!activated_ || resetting_ || (status_ & kStatusNeedsReset) != 0) return;
    status_ |= kStatusNeedsReset;
  }
  SignalConfig();
}

// ------------------------------------------------------------------------- PCI configuration access capability

std::optional<PciTransport::AccessWindow> PciTransport::ReadAccessWindow() const {
  std::array<uint8_t, kPciCapAccessBytes> capability;
  PeekConfig(access_capability_, absl::MakeSpan(capability));
  const auto bytes = absl::MakeConstSpan(capability);
  const AccessWindow window = {.bar = bytes[kPciCapBar],
                               .offset = static_cast<uint32_t>(LoadLe(bytes.subspan(kPciCapOffset, 4))),
                               .size = static_cast<uint32_t>(LoadLe(bytes.subspan(kPciCapSize, 4)))};
  // "cap.length MUST be 1, 2 or 4, and cap.offset a multiple of it" (section 4.1.4.9.1).
  if (window.size != 1 && window.size != 2 && window.size != 4) return std::nullopt;
  if (window.offset % window.size != 0 || !RangeFits(window.offset, window.size, BarSize(window.bar))) {
    return std::nullopt;
  }
  return window;
}

void PciTransport::OnConfigRead(uint16_t offset, size_t size) {
  const uint16_t data = access_capability_ + kPciCapAccessData;
  if (offset >= data + 4 || offset + size <= data) return;
  const auto window = ReadAccessWindow();
  if (!window.has_value()) return;
  std::array<uint8_t, 4> value = {};
  BarRead(window->bar, window->offset, absl::MakeSpan(value).subspan(0, window->size));
  PokeConfig(data, value);
}

void PciTransport::OnConfigWritten(uint16_t offset, size_t size) {
  const uint16_t data = access_capability_ + kPciCapAccessData;
  if (offset >= data + 4 || offset + size <= data) return;
  const auto window = ReadAccessWindow();
  if (!window.has_value()) return;
  std::array<uint8_t, 4> value;
  PeekConfig(data, absl::MakeSpan(value));
  BarWrite(window->bar, window->offset, absl::MakeConstSpan(value).subspan(0, window->size));
}

}  // namespace sluice::virtio
