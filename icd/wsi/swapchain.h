// File: swapchain.h
//
// A swapchain: images, a queue of presents, and the thread that takes them to the window system. Private to this
// directory.
//
// An image is free, acquired (the program's) or queued (presented, not yet shown). The thread waits for the copy of the
// oldest queued image (image.h), then for its turn, hands the pixels to the Presenter and frees the image. Modes differ
// in two things: whether the thread waits for a turn, and whether a newer image replaces one that is waiting.
#ifndef SLUICE_ICD_WSI_SWAPCHAIN_H_
#define SLUICE_ICD_WSI_SWAPCHAIN_H_

#include <vulkan/vulkan_core.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "icd/wsi/host_raw.h"
#include "icd/wsi/image.h"
#include "icd/wsi/surface.h"

namespace sluice::wsi {

class Swapchain {
 public:
  // Also when this fails, the old swapchain is retired.
  static VkResult Create(Device& device, const VkSwapchainCreateInfoKHR& info, Swapchain** swapchain);
  ~Swapchain();
  Swapchain(const Swapchain&) = delete;
  Swapchain& operator=(const Swapchain&) = delete;

  uint32_t size() const { return static_cast<uint32_t>(images_.size()); }
  SwapchainImage& image(uint32_t index) { return *images_[index]; }
  VkSwapchainCreateFlagsKHR flags() const { return flags_; }

  VkResult Acquire(uint64_t timeout_ns, VkSemaphore semaphore, VkFence fence, uint32_t* index);

  // Presenting one image is these, in order. Admit: whether it can be shown (VK_SUCCESS or VK_SUBOPTIMAL_KHR); else
  // it is free again.
  VkResult Admit(uint32_t index);
  VkResult SubmitCopy(VkQueue queue, uint32_t family, uint32_t index, std::span<const VkSemaphore> waits);
  void Enqueue(uint32_t index, std::vector<VkRect2D> damage);

  // No more images can be acquired; what is queued is shown without delay, older frames skipped; returns when done.
  void Retire();

  // Of a VkPresentRegionKHR, within the extent. Empty: all of the image.
  std::vector<VkRect2D> Damage(const VkPresentRegionKHR& region) const;

 private:
  enum class State : uint8_t { kFree, kAcquired, kQueued };
  struct Request {
    uint32_t index = 0;
    std::vector<VkRect2D> damage;
  };
  struct Pool {
    uint32_t family;
    VkCommandPool pool;
  };

  Swapchain(Device& device, const VkSwapchainCreateInfoKHR& info);
  VkResult Init(const VkSwapchainCreateInfoKHR& info);
  VkResult PoolOf(uint32_t family, VkCommandPool* pool);

  // The thread.
  void Run();
  VkResult WaitTurn(Request* request);
  VkResult Show(const Request& request);
  // Takes the next queued request in place of `request` if its copy is done by `timeout_ns`. VK_TIMEOUT: it is not.
  VkResult Replace(Request* request, uint64_t timeout_ns);
  void Release(uint32_t index);
  void SetStatus(VkResult result);

  Device& device_;
  Surface& surface_;
  const VkSwapchainCreateFlagsKHR flags_;
  const VkExtent2D extent_;
  const VkPresentModeKHR mode_;
  std::vector<std::unique_ptr<SwapchainImage>> images_;
  std::vector<Pool> pools_;  // used by the program's presents only
  std::unique_ptr<Presenter> presenter_;
  int64_t last_turn_ = 0;  // the thread's

  std::mutex mu_;                  // guards what follows
  std::condition_variable work_;   // for the thread: a request, Hurry or the end
  std::condition_variable freed_;  // for the program: an image is free, or will never be; the thread is idle
  std::vector<State> states_;
  std::deque<uint32_t> free_;
  std::deque<Request> queue_;
  VkResult status_ = VK_SUCCESS;  // or VK_SUBOPTIMAL_KHR; an error stays
  bool busy_ = false;             // the thread has a request
  bool retired_ = false;
  bool stop_ = false;
  QuietThread thread_;
};

}  // namespace sluice::wsi

#endif  // SLUICE_ICD_WSI_SWAPCHAIN_H_
