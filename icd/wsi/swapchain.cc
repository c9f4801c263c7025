#include "icd/wsi/swapchain.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "icd/wsi/query.h"

namespace sluice::wsi {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kForever = UINT64_MAX;
constexpr size_t kMaxDamageRects = 64;  // more are one: all of the image

Swapchain* Of(VkSwapchainKHR swapchain) {
  return static_cast<Swapchain*>(static_cast<void*>(swapchain));
}

bool CanCreate(const Device& device, const VkSwapchainCreateInfoKHR& info) {
  ChannelOrder order;
  if (!OrderOf(info.imageFormat, &order) || info.imageArrayLayers != 1) return false;
  if (info.minImageCount > kMaxImages || info.imageColorSpace != VK_COLOR_SPACE_SRGB_NONLINEAR_KHR) return false;
  switch (info.presentMode) {
    case VK_PRESENT_MODE_FIFO_KHR:
    case VK_PRESENT_MODE_FIFO_RELAXED_KHR:
    case VK_PRESENT_MODE_MAILBOX_KHR:
    case VK_PRESENT_MODE_IMMEDIATE_KHR:
      break;
    default:
      return false;
  }
  const uint32_t limit = std::min(MaxImageExtent(device.physical()), 1u << 16);
  const VkExtent2D& extent = info.imageExtent;
  return extent.width >= 1 && extent.height >= 1 && extent.width <= limit && extent.height <= limit;
}

}  // namespace

VkResult Swapchain::Create(Device& device, const VkSwapchainCreateInfoKHR& info, Swapchain** swapchain) {
  Surface& surface = *SurfaceOf(info.surface);
  Swapchain* old = Of(info.oldSwapchain);
  {
    std::unique_lock lock(surface.mu);
    if (surface.active != nullptr && surface.active != old) return VK_ERROR_NATIVE_WINDOW_IN_USE_KHR;
    surface.active = nullptr;
  }
  if (old != nullptr) old->Retire();
  if (!CanCreate(device, info)) return VK_ERROR_INITIALIZATION_FAILED;
  std::unique_ptr<Swapchain> created(new Swapchain(device, info));
  if (const VkResult r = created->Init(info); r != VK_SUCCESS) return r;
  std::unique_lock lock(surface.mu);
  surface.active = *swapchain = created.release();
  return VK_SUCCESS;
}

Swapchain::Swapchain(Device& device, const VkSwapchainCreateInfoKHR& info)
    : device_(device),
      surface_(*SurfaceOf(info.surface)),
      flags_(info.flags),
      extent_(info.imageExtent),
      mode_(info.presentMode) {}

VkResult Swapchain::Init(const VkSwapchainCreateInfoKHR& info) {
  PresenterOptions options;
  options.extent = extent_;
  options.format = info.imageFormat;
  OrderOf(info.imageFormat, &options.order);
  options.opaque = info.compositeAlpha == VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR;
  options.mode = mode_;
  if (const VkResult r = surface_.NewPresenter(options, &presenter_); r != VK_SUCCESS) return r;
  const uint32_t count = std::max(info.minImageCount, mode_ == VK_PRESENT_MODE_MAILBOX_KHR ? 3u : kMinImages);
  for (uint32_t i = 0; i < count; i++) {
    images_.push_back(std::make_unique<SwapchainImage>(device_));
    if (const VkResult r = images_.back()->Init(info); r != VK_SUCCESS) return r;
  }
  {
    std::unique_lock lock(mu_);
    states_.assign(count, State::kFree);
    for (uint32_t i = 0; i < count; i++) free_.push_back(i);
  }
  return thread_.Start([this] { Run(); }) ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}

Swapchain::~Swapchain() {
  if (thread_.joinable()) {
    {
      std::unique_lock lock(mu_);
      stop_ = true;
      work_.notify_all();
    }
    presenter_->Hurry();
    thread_.Join();
  }
  {
    std::unique_lock lock(surface_.mu);
    if (surface_.active == this) surface_.active = nullptr;
  }
  presenter_.reset();
  for (const Pool& pool : pools_) device_.vk().DestroyCommandPool(device_.handle(), pool.pool, nullptr);
}

void Swapchain::Retire() {
  presenter_->Hurry();
  std::unique_lock lock(mu_);
  retired_ = true;
  work_.notify_all();
  freed_.notify_all();
  while (busy_ || !queue_.empty()) freed_.wait(lock);
}

VkResult Swapchain::Acquire(uint64_t timeout_ns, VkSemaphore semaphore, VkFence fence, uint32_t* index) {
  const bool finite = timeout_ns < uint64_t{INT64_MAX} / 2;
  const auto deadline = finite ? Clock::now() + std::chrono::nanoseconds(timeout_ns) : Clock::time_point::max();
  VkResult status = VK_SUCCESS;
  {
    std::unique_lock lock(mu_);
    for (;;) {
      if (retired_) return VK_ERROR_OUT_OF_DATE_KHR;
      if (status_ < 0) return status_;
      if (!free_.empty()) break;
      if (timeout_ns == 0) return VK_NOT_READY;
      if (!finite) {
        freed_.wait(lock);
        continue;
      }
      if (Clock::now() >= deadline) return VK_TIMEOUT;
      freed_.wait_until(lock, deadline);
    }
    *index = free_.front();
    free_.pop_front();
    states_[*index] = State::kAcquired;
    status = status_;
  }
  if (const VkResult r = device_.SignalNow(semaphore, fence); r != VK_SUCCESS) {
    std::unique_lock lock(mu_);
    states_[*index] = State::kFree;
    free_.push_front(*index);
    return r;
  }
  return status;
}

VkResult Swapchain::Admit(uint32_t index) {
  std::unique_lock lock(mu_);
  if (index >= states_.size() || states_[index] != State::kAcquired) return VK_ERROR_UNKNOWN;
  if (status_ >= 0) return status_;
  states_[index] = State::kFree;
  free_.push_back(index);
  return status_;
}

VkResult Swapchain::PoolOf(uint32_t family, VkCommandPool* pool) {
  for (const Pool& known : pools_) {
    if (known.family == family) return *pool = known.pool, VK_SUCCESS;
  }
  VkCommandPoolCreateInfo info = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  info.queueFamilyIndex = family;
  if (const VkResult r = device_.vk().CreateCommandPool(device_.handle(), &info, nullptr, pool); r != VK_SUCCESS) {
    return r;
  }
  pools_.push_back({family, *pool});
  return VK_SUCCESS;
}

VkResult Swapchain::SubmitCopy(VkQueue queue, uint32_t family, uint32_t index, std::span<const VkSemaphore> waits) {
  VkCommandPool pool = VK_NULL_HANDLE;
  VkResult result = PoolOf(family, &pool);
  if (result == VK_SUCCESS) result = images_[index]->SubmitCopy(queue, family, pool, waits);
  if (result == VK_ERROR_DEVICE_LOST) SetStatus(result);
  return result;
}

void Swapchain::Enqueue(uint32_t index, std::vector<VkRect2D> damage) {
  std::unique_lock lock(mu_);
  states_[index] = State::kQueued;
  queue_.push_back({index, std::move(damage)});
  work_.notify_all();
}

std::vector<VkRect2D> Swapchain::Damage(const VkPresentRegionKHR& region) const {
  std::vector<VkRect2D> damage;
  if (region.pRectangles == nullptr || region.rectangleCount > kMaxDamageRects) return damage;
  for (uint32_t i = 0; i < region.rectangleCount; i++) {
    const VkRectLayerKHR& rect = region.pRectangles[i];
    const int64_t left = std::max<int64_t>(rect.offset.x, 0), top = std::max<int64_t>(rect.offset.y, 0);
    const int64_t right = std::min<int64_t>(int64_t{rect.offset.x} + rect.extent.width, extent_.width);
    const int64_t bottom = std::min<int64_t>(int64_t{rect.offset.y} + rect.extent.height, extent_.height);
    if (left >= right || top >= bottom) continue;
    damage.push_back({{static_cast<int32_t>(left), static_cast<int32_t>(top)},
                      {static_cast<uint32_t>(right - left), static_cast<uint32_t>(bottom - top)}});
  }
  return damage;
}

void Swapchain::Release(uint32_t index) {
  std::unique_lock lock(mu_);
  states_[index] = State::kFree;
  free_.push_back(index);
  freed_.notify_all();
}

void Swapchain::SetStatus(VkResult result) {
  std::unique_lock lock(mu_);
  if (status_ < 0) return;
  status_ = result;
  if (result < 0) freed_.notify_all();
}

void Swapchain::Run() {
  for (;;) {
    Request request;
    {
      std::unique_lock lock(mu_);
      busy_ = false;
      freed_.notify_all();
      while (queue_.empty() && !stop_) work_.wait(lock);
      if (queue_.empty()) return;
      request = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
    }
    VkResult result = images_[request.index]->WaitCopy(kForever);
    if (result == VK_SUCCESS) result = WaitTurn(&request);
    if (result == VK_SUCCESS) {
      result = Show(request);
    } else {
      Release(request.index);
    }
    SetStatus(result);
  }
}

VkResult Swapchain::Replace(Request* request, uint64_t timeout_ns) {
  uint32_t next = 0;
  {
    std::unique_lock lock(mu_);
    if (queue_.empty()) return VK_TIMEOUT;
    next = queue_.front().index;  // only this thread takes requests out
  }
  const VkResult result = images_[next]->WaitCopy(timeout_ns);
  if (result == VK_TIMEOUT) return result;
  Request newer;
  {
    std::unique_lock lock(mu_);
    newer = std::move(queue_.front());
    queue_.pop_front();
  }
  // What the dropped frame changed was never shown.
  if (request->damage.empty() || newer.damage.size() + request->damage.size() > kMaxDamageRects) {
    newer.damage.clear();
  } else if (!newer.damage.empty()) {
    newer.damage.insert(newer.damage.end(), request->damage.begin(), request->damage.end());
  }
  Release(request->index);
  *request = std::move(newer);
  return result;
}

VkResult Swapchain::WaitTurn(Request* request) {
  {
    std::unique_lock lock(mu_);
    if (status_ < 0) return status_;
  }
  const bool mailbox = mode_ == VK_PRESENT_MODE_MAILBOX_KHR;
  const bool paced = mode_ != VK_PRESENT_MODE_IMMEDIATE_KHR;
  const int64_t due = paced ? presenter_->NextTurn(last_turn_, mode_ == VK_PRESENT_MODE_FIFO_RELAXED_KHR) : 0;
  for (;;) {
    bool newer = false, hurry = false;
    int64_t now = MonotonicNow();
    {
      std::unique_lock lock(mu_);
      hurry = retired_ || stop_;
      newer = !queue_.empty();
      if (!hurry && !(mailbox && newer) && now < due) {
        work_.wait_for(lock, std::chrono::nanoseconds(due - now));
        continue;
      }
    }
    if (hurry || (mailbox && newer)) {
      const uint64_t timeout = hurry ? kForever : static_cast<uint64_t>(std::max<int64_t>(due - now, 0));
      const VkResult r = Replace(request, timeout);
      if (r < 0) return r;
      if (r == VK_SUCCESS && (hurry || now < due)) continue;
      if (!hurry && now < due) continue;
    }
    break;
  }
  last_turn_ = due;
  return VK_SUCCESS;
}

VkResult Swapchain::Show(const Request& request) {
  const Frame frame = {images_[request.index]->pixels(), request.damage};
  return presenter_->Show(frame, [&] { Release(request.index); });
}

}  // namespace sluice::wsi
