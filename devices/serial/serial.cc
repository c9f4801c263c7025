#include "devices/serial/serial.h"

#include <algorithm>

namespace sluice::serial {
namespace {

constexpr uint8_t kIerMask = 0x0f;
constexpr uint8_t kMcrMask = 0x1f;
constexpr uint8_t kMsrInputs = kMsrCts | kMsrDsr | kMsrRi | kMsrDcd;
// A terminal is plugged in and ready.
constexpr uint8_t kMsrTerminal = kMsrCts | kMsrDsr | kMsrDcd;

// FCR bits 7..6: how many bytes in the receiver FIFO raise "data available".
size_t TriggerLevel(uint8_t fcr) {
  constexpr size_t kLevels[] = {1, 4, 8, 14};
  return kLevels[fcr >> 6];
}

// LCR bits 1..0: 5 to 8 data bits; higher ones are not sent.
uint8_t DataMask(uint8_t lcr) {
  return static_cast<uint8_t>(0xff >> (3 - (lcr & 3)));
}

}  // namespace

size_t Serial::receiver_capacity() const {
  return (fcr_ & kFcrEnable) != 0 ? kFifoBytes : 1;
}

uint8_t Serial::PendingInterrupt() const {
  // Highest priority first (data sheet, table IV).
  if ((ier_ & kIerLineStatus) != 0 && lsr_errors_ != 0) return kIirLineStatus;
  if ((ier_ & kIerReceived) != 0 && !receiver_.empty()) {
    if ((fcr_ & kFcrEnable) == 0 || receiver_.size() >= TriggerLevel(fcr_)) return kIirReceived;
    // Below the trigger level, and by our clock the four character times of silence are over at once.
    return kIirTimeout;
  }
  if ((ier_ & kIerTransmitEmpty) != 0 && thr_empty_pending_) return kIirTransmitEmpty;
  if ((ier_ & kIerModemStatus) != 0 && (msr_ & ~kMsrInputs) != 0) return kIirModemStatus;
  return kIirNone;
}

void Serial::UpdateInterrupt() {
  const bool level = PendingInterrupt() != kIirNone;
  if (level == level_) return;
  level_ = level;
  if (options_.interrupt != nullptr) options_.interrupt(level);
}

void Serial::FillReceiver() {
  // Only when it is empty: the line then falls between two fillings, and an edge-triggered interrupt controller sees
  // the next.
  if (!receiver_.empty() || (mcr_ & kMcrLoop) != 0) return;
  while (!input_.empty() && receiver_.size() < receiver_capacity()) {
    receiver_.push_back(input_.front() & DataMask(lcr_));
    input_.pop_front();
  }
}

void Serial::UpdateModemStatus() {
  uint8_t inputs = kMsrTerminal;
  if ((mcr_ & kMcrLoop) != 0) {
    // Loopback wires the four outputs to the four inputs (data sheet, section 8.6).
    inputs = 0;
    if ((mcr_ & kMcrRts) != 0) inputs |= kMsrCts;
    if ((mcr_ & kMcrDtr) != 0) inputs |= kMsrDsr;
    if ((mcr_ & kMcrOut1) != 0) inputs |= kMsrRi;
    if ((mcr_ & kMcrOut2) != 0) inputs |= kMsrDcd;
  }
  const uint8_t changed = (msr_ ^ inputs) & kMsrInputs;
  if ((changed & kMsrCts) != 0) msr_ |= kMsrDeltaCts;
  if ((changed & kMsrDsr) != 0) msr_ |= kMsrDeltaDsr;
  if ((changed & kMsrDcd) != 0) msr_ |= kMsrDeltaDcd;
  if ((changed & kMsrRi) != 0 && (inputs & kMsrRi) == 0) msr_ |= kMsrTrailingRi;
  msr_ = static_cast<uint8_t>((msr_ & ~kMsrInputs) | inputs);
}

void Serial::WriteThr(uint8_t value) {
  value &= DataMask(lcr_);
  if ((mcr_ & kMcrLoop) != 0) {
    Receive(value);
  } else {
    ++bytes_out_;
    output_.push_back(value);
    if (value == '\n' || output_.size() >= kOutputBatch) FlushLocked();
  }
  // Full for an instant, then empty again: the line falls and rises.
  thr_empty_pending_ = false;
  UpdateInterrupt();
  thr_empty_pending_ = true;
}

void Serial::Receive(uint8_t value) {
  if (receiver_.size() < receiver_capacity()) {
    receiver_.push_back(value);
    return;
  }
  lsr_errors_ |= kLsrOverrun;
  // Without FIFOs the new byte destroys the old one; a full FIFO keeps what it has.
  if ((fcr_ & kFcrEnable) == 0) receiver_.back() = value;
}

uint8_t Serial::ReadRbr() {
  if (receiver_.empty()) return 0;
  const uint8_t value = receiver_.front();
  receiver_.pop_front();
  UpdateInterrupt();
  FillReceiver();
  return value;
}

uint8_t Serial::ReadIir() {
  const uint8_t pending = PendingInterrupt();
  if (pending == kIirTransmitEmpty) thr_empty_pending_ = false;
  return pending | ((fcr_ & kFcrEnable) != 0 ? kIirFifosOn : 0);
}

uint8_t Serial::ReadLocked(uint16_t reg) {
  const bool latch = (lcr_ & kLcrDivisorLatch) != 0;
  switch (reg) {
    case kRbr:
      return latch ? static_cast<uint8_t>(divisor_) : ReadRbr();
    case kIer:
      return latch ? static_cast<uint8_t>(divisor_ >> 8) : ier_;
    case kIir:
      return ReadIir();
    case kLcr:
      return lcr_;
    case kMcr:
      return mcr_;
    case kLsr: {
      uint8_t value = kLsrThrEmpty | kLsrTransmitterEmpty | lsr_errors_;
      if (!receiver_.empty()) value |= kLsrDataReady;
      // Bit 7 is about errors that are kept in the FIFO; an overrun is not.
      if ((fcr_ & kFcrEnable) != 0 && (lsr_errors_ & kLsrBreak) != 0) value |= kLsrFifoError;
      lsr_errors_ = 0;
      return value;
    }
    case kMsr: {
      const uint8_t value = msr_;
      msr_ &= kMsrInputs;
      return value;
    }
    case kScr:
      return scr_;
    default:
      return 0xff;
  }
}

void Serial::WriteFcr(uint8_t value) {
  const bool toggled = ((value ^ fcr_) & kFcrEnable) != 0;
  // Switching the FIFOs on or off empties both; the other bits count only while they are on.
  if (toggled || ((value & kFcrEnable) != 0 && (value & kFcrClearReceiver) != 0)) receiver_.clear();
  fcr_ = (value & kFcrEnable) != 0 ? static_cast<uint8_t>(value & (0xc0 | kFcrEnable)) : 0;
  UpdateInterrupt();
  FillReceiver();
}

void Serial::WriteLocked(uint16_t reg, uint8_t value) {
  const bool latch = (lcr_ & kLcrDivisorLatch) != 0;
  switch (reg) {
    case kThr:
      if (latch) {
        divisor_ = static_cast<uint16_t>((divisor_ & 0xff00) | value);
      } else {
        WriteThr(value);
      }
      return;
    case kIer:
      if (latch) {
        divisor_ = static_cast<uint16_t>((divisor_ & 0x00ff) | (value << 8));
      } else {
        // The holding register is empty, always: enabling its interrupt raises it.
        if ((value & ~ier_ & kIerTransmitEmpty) != 0) thr_empty_pending_ = true;
        ier_ = value & kIerMask;
      }
      return;
    case kFcr:
      return WriteFcr(value);
    case kLcr:
      // In loopback the break condition reaches the receiver as a zero byte.
      if ((value & ~lcr_ & kLcrBreak) != 0 && (mcr_ & kMcrLoop) != 0) {
        Receive(0);
        lsr_errors_ |= kLsrBreak;
      }
      lcr_ = value;
      return;
    case kMcr:
      mcr_ = value & kMcrMask;
      UpdateModemStatus();
      FillReceiver();
      return;
    case kScr:
      scr_ = value;
      return;
    default:
      return;  // LSR and MSR are read-only
  }
}

uint8_t Serial::Read(uint16_t reg) {
  MutexLock lock(&mu_);
  const uint8_t value = ReadLocked(reg);
  UpdateInterrupt();
  return value;
}

void Serial::Write(uint16_t reg, uint8_t value) {
  MutexLock lock(&mu_);
  WriteLocked(reg, value);
  UpdateInterrupt();
}

void Serial::ReadBytes(uint16_t reg, absl::Span<uint8_t> to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = Read(static_cast<uint16_t>(reg + i));
}

void Serial::WriteBytes(uint16_t reg, absl::Span<const uint8_t> from) {
  for (size_t i = 0; i < from.size(); ++i) Write(static_cast<uint16_t>(reg + i), from[i]);
}

size_t Serial::PushInput(absl::string_view bytes) {
  MutexLock lock(&mu_);
  if ((mcr_ & kMcrLoop) != 0) return 0;  // the line is disconnected
  const size_t taken = std::min(bytes.size(), kInputLimit - std::min(kInputLimit, input_.size()));
  for (const char c : bytes.substr(0, taken)) input_.push_back(static_cast<uint8_t>(c));
  FillReceiver();
  UpdateInterrupt();
  return taken;
}

void Serial::FlushLocked() {
  if (output_.empty()) return;
  if (options_.output != nullptr) options_.output(output_);
  output_.clear();
}

void Serial::Flush() {
  MutexLock lock(&mu_);
  FlushLocked();
}

uint64_t Serial::bytes_out() const {
  MutexLock lock(&mu_);
  return bytes_out_;
}

}  // namespace sluice::serial
