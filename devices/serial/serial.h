// File: serial.h
//
// A 16550A UART (National Semiconductor PC16550D data sheet) on eight I/O ports: the guest's console.
//
//   Serial serial({.output = [](absl::Span<const uint8_t> bytes) { ... }, .interrupt = [&](bool level) { ... }});
//   serial.Write(port - 0x3f8, value);        // vCPU thread
//   serial.PushInput("ls\n");                 // any thread
//
// What it models: all registers, divisor latch, both FIFOs with trigger levels, interrupt priorities, loopback, modem
// control and status. The transmitter is infinitely fast: a byte is out when the write returns, so the guest decides
// the output rate; bytes are gathered and handed to the sink at a newline, when 256 are there, or at Flush().
#ifndef SLUICE_DEVICES_SERIAL_SERIAL_H_
#define SLUICE_DEVICES_SERIAL_SERIAL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "vmm/base/mutex.h"

namespace sluice::serial {

// I/O port and interrupt line of the first PC serial port, and how many ports a UART has.
inline constexpr uint16_t kSerialPort = 0x3f8;
inline constexpr uint8_t kSerialIrq = 4;
inline constexpr uint16_t kPortCount = 8;

// Register offsets; DLAB is bit 7 of LCR.
enum Register : uint8_t {
  kRbr = 0,  // read, DLAB=0: receiver buffer
  kThr = 0,  // write, DLAB=0: transmitter holding
  kDll = 0,  // DLAB=1: divisor, low byte
  kIer = 1,  // DLAB=0: interrupt enable
  kDlm = 1,  // DLAB=1: divisor, high byte
  kIir = 2,  // read: interrupt identification
  kFcr = 2,  // write: FIFO control
  kLcr = 3,
  kMcr = 4,
  kLsr = 5,  // read-only
  kMsr = 6,  // read-only
  kScr = 7,
};

inline constexpr uint8_t kIerReceived = 0x01;
inline constexpr uint8_t kIerTransmitEmpty = 0x02;
inline constexpr uint8_t kIerLineStatus = 0x04;
inline constexpr uint8_t kIerModemStatus = 0x08;
inline constexpr uint8_t kIirNone = 0x01;
inline constexpr uint8_t kIirModemStatus = 0x00;
inline constexpr uint8_t kIirTransmitEmpty = 0x02;
inline constexpr uint8_t kIirReceived = 0x04;
inline constexpr uint8_t kIirLineStatus = 0x06;
inline constexpr uint8_t kIirTimeout = 0x0c;
inline constexpr uint8_t kIirFifosOn = 0xc0;
inline constexpr uint8_t kFcrEnable = 0x01;
inline constexpr uint8_t kFcrClearReceiver = 0x02;
inline constexpr uint8_t kFcrClearTransmitter = 0x04;
inline constexpr uint8_t kLcrBreak = 0x40;
inline constexpr uint8_t kLcrDivisorLatch = 0x80;
inline constexpr uint8_t kMcrDtr = 0x01;
inline constexpr uint8_t kMcrRts = 0x02;
inline constexpr uint8_t kMcrOut1 = 0x04;
inline constexpr uint8_t kMcrOut2 = 0x08;
inline constexpr uint8_t kMcrLoop = 0x10;
inline constexpr uint8_t kLsrDataReady = 0x01;
inline constexpr uint8_t kLsrOverrun = 0x02;
inline constexpr uint8_t kLsrBreak = 0x10;
inline constexpr uint8_t kLsrThrEmpty = 0x20;
inline constexpr uint8_t kLsrTransmitterEmpty = 0x40;
inline constexpr uint8_t kLsrFifoError = 0x80;
inline constexpr uint8_t kMsrDeltaCts = 0x01;
inline constexpr uint8_t kMsrDeltaDsr = 0x02;
inline constexpr uint8_t kMsrTrailingRi = 0x04;
inline constexpr uint8_t kMsrDeltaDcd = 0x08;
inline constexpr uint8_t kMsrCts = 0x10;
inline constexpr uint8_t kMsrDsr = 0x20;
inline constexpr uint8_t kMsrRi = 0x40;
inline constexpr uint8_t kMsrDcd = 0x80;

// Bytes of output that wait for a newline, at most; and of input that wait for the guest.
inline constexpr size_t kOutputBatch = 256;
inline constexpr size_t kInputLimit = 4096;
// Depth of the receiver FIFO.
inline constexpr size_t kFifoBytes = 16;

// Thread-safe: `mu_` covers all registers and buffers. Both callbacks run with it held, on the thread whose access
// caused them; they must not call back. The destructor hands over what is left: what the sink refers to outlives the
// Serial.
class Serial {
 public:
  struct Options {
    // Takes output, 1 .. kOutputBatch bytes. It should not block long: the guest waits meanwhile. nullptr: discarded.
    std::function<void(absl::Span<const uint8_t>)> output;
    // The interrupt line's new level; called only when it changes. On an edge-triggered line (ISA IRQ 4) signal on
    // `true`.
    std::function<void(bool level)> interrupt;
  };
  explicit Serial(Options options) : options_(std::move(options)) {}
  ~Serial() { Flush(); }
  Serial(const Serial&) = delete;
  Serial& operator=(const Serial&) = delete;

  // A guest's access to one register, 0 .. 7. Others: all-ones, or nothing.
  uint8_t Read(uint16_t reg);
  void Write(uint16_t reg, uint8_t value);
  // A guest's access of 1, 2 or 4 bytes from `reg` on: byte by byte, as the ISA bus splits it.
  void ReadBytes(uint16_t reg, absl::Span<uint8_t> to);
  void WriteBytes(uint16_t reg, absl::Span<const uint8_t> from);

  // Input for the guest. Returns how many bytes were taken: what does not fit below kInputLimit is not. Ignored in
  // loopback.
  size_t PushInput(absl::string_view bytes);
  // Hands gathered output to the sink.
  void Flush();

  // Bytes that the guest has sent.
  uint64_t bytes_out() const;

 private:
  uint8_t ReadLocked(uint16_t reg) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteLocked(uint16_t reg, uint8_t value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteFcr(uint8_t value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WriteThr(uint8_t value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A byte arrives from the line (loopback): taken, or an overrun.
  void Receive(uint8_t value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint8_t ReadRbr() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint8_t ReadIir() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint8_t PendingInterrupt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves waiting input into the receiver when that is empty.
  void FillReceiver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The modem inputs as loopback (or the outside world) drives them; sets the delta bits.
  void UpdateModemStatus() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UpdateInterrupt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  size_t receiver_capacity() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;
  mutable Mutex mu_;
  uint8_t ier_ ABSL_GUARDED_BY(mu_) = 0;
  uint8_t fcr_ ABSL_GUARDED_BY(mu_) = 0;
  uint8_t lcr_ ABSL_GUARDED_BY(mu_) = 0x03;  // 8N1
  uint8_t mcr_ ABSL_GUARDED_BY(mu_) = 0;
  uint8_t lsr_errors_ ABSL_GUARDED_BY(mu_) = 0;  // the bits that a read of LSR clears
  uint8_t msr_ ABSL_GUARDED_BY(mu_) = kMsrCts | kMsrDsr | kMsrDcd;
  uint8_t scr_ ABSL_GUARDED_BY(mu_) = 0;
  uint16_t divisor_ ABSL_GUARDED_BY(mu_) = 12;  // 9600 baud at 1.8432 MHz
  bool thr_empty_pending_ ABSL_GUARDED_BY(mu_) = false;
  bool level_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<uint8_t> receiver_ ABSL_GUARDED_BY(mu_);  // what RBR reads: 1 byte, or 16 with FIFOs on
  std::deque<uint8_t> input_ ABSL_GUARDED_BY(mu_);     // what waits for room in the receiver
  std::vector<uint8_t> output_ ABSL_GUARDED_BY(mu_);
  uint64_t bytes_out_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace sluice::serial

#endif  // SLUICE_DEVICES_SERIAL_SERIAL_H_
