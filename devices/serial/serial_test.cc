#include "devices/serial/serial.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace sluice::serial {
namespace {

class SerialTest : public ::testing::Test {
 protected:
  // Before serial_: its destructor flushes into them.
  std::string out_;
  int batches_ = 0;
  bool level_ = false;
  int edges_ = 0;
  Serial serial_{{.output =
                      [this](absl::Span<const uint8_t> bytes) {
                        EXPECT_GE(bytes.size(), 1u);
                        EXPECT_LE(bytes.size(), kOutputBatch);
                        out_.append(bytes.begin(), bytes.end());
                        ++batches_;
                      },
                  .interrupt =
                      [this](bool level) {
                        EXPECT_NE(level, level_);
                        level_ = level;
                        if (level) ++edges_;
                      }}};
  void Send(const std::string& text) {
    for (const char c : text) serial_.Write(kThr, static_cast<uint8_t>(c));
  }
  std::string ReadAll() {
    std::string in;
    while ((serial_.Read(kLsr) & kLsrDataReady) != 0) in.push_back(static_cast<char>(serial_.Read(kRbr)));
    return in;
  }
  void EnableFifos(uint8_t trigger_bits = 0) {
    serial_.Write(kFcr, static_cast<uint8_t>(kFcrEnable | (trigger_bits << 6)));
  }
};

TEST_F(SerialTest, AfterResetTheRegistersHoldTheDataSheetsValues) {
  EXPECT_EQ(serial_.Read(kIer), 0);
  EXPECT_EQ(serial_.Read(kIir), kIirNone);
  EXPECT_EQ(serial_.Read(kMcr), 0);
  EXPECT_EQ(serial_.Read(kLsr), kLsrThrEmpty | kLsrTransmitterEmpty);
  EXPECT_EQ(serial_.Read(kMsr) & 0x0f, 0);
}

TEST_F(SerialTest, OutputIsHandedOverAtANewline) {
  Send("ab");
  EXPECT_EQ(out_, "");
  Send("c\n");
  EXPECT_EQ(out_, "abc\n");
  EXPECT_EQ(batches_, 1);
}

TEST_F(SerialTest, OutputWithoutNewlinesIsHandedOverInBatches) {
  Send(std::string(kOutputBatch * 2 + 1, 'x'));
  EXPECT_EQ(out_.size(), kOutputBatch * 2);
  serial_.Flush();
  EXPECT_EQ(out_.size(), kOutputBatch * 2 + 1);
  EXPECT_EQ(serial_.bytes_out(), kOutputBatch * 2 + 1);
}

TEST(Serial, FlushesWhenItGoes) {
  std::string out;
  {
    Serial serial({.output = [&](absl::Span<const uint8_t> bytes) { out.append(bytes.begin(), bytes.end()); }});
    serial.Write(kThr, '>');
  }
  EXPECT_EQ(out, ">");
}

TEST(Serial, WorksWithoutSinkOrInterrupt) {
  Serial serial({});
  serial.Write(kIer, 0x0f);
  for (int i = 0; i < 1000; ++i) serial.Write(kThr, 'x');
  EXPECT_EQ(serial.bytes_out(), 1000u);
}

TEST_F(SerialTest, DivisorLatchHidesDataAndInterruptEnableRegisters) {
  serial_.Write(kIer, kIerLineStatus);
  serial_.Write(kLcr, 0x03 | kLcrDivisorLatch);
  serial_.Write(kDll, 0x34);
  serial_.Write(kDlm, 0x12);
  EXPECT_EQ(serial_.Read(kDll), 0x34);
  EXPECT_EQ(serial_.Read(kDlm), 0x12);
  serial_.Write(kLcr, 0x03);
  EXPECT_EQ(serial_.Read(kIer), kIerLineStatus);
  serial_.Flush();
  EXPECT_EQ(out_, "");
}

TEST_F(SerialTest, ScratchKeepsWhatIsWritten) {
  serial_.Write(kScr, 0x5a);
  EXPECT_EQ(serial_.Read(kScr), 0x5a);
}

TEST_F(SerialTest, StatusRegistersAreReadOnlyAndUnusedBitsReadZero) {
  serial_.Write(kLsr, 0xff);
  EXPECT_EQ(serial_.Read(kLsr), kLsrThrEmpty | kLsrTransmitterEmpty);
  serial_.Write(kIer, 0xff);
  EXPECT_EQ(serial_.Read(kIer), 0x0f);
  serial_.Write(kMcr, 0xff);
  EXPECT_EQ(serial_.Read(kMcr), 0x1f);
}

TEST_F(SerialTest, PortsOutsideTheEightReadAllOnes) {
  EXPECT_EQ(serial_.Read(8), 0xff);
  serial_.Write(8, 1);
  serial_.Write(0xffff, 1);
}

TEST_F(SerialTest, AWideAccessIsSplitIntoBytes) {
  const std::vector<uint8_t> two = {'h', kIerReceived};  // THR, then IER
  serial_.WriteBytes(kThr, two);
  serial_.Flush();
  EXPECT_EQ(out_, "h");
  EXPECT_EQ(serial_.Read(kIer), kIerReceived);
  std::vector<uint8_t> in(4);
  serial_.ReadBytes(6, absl::MakeSpan(in));
  EXPECT_EQ(in[2], 0xff);
  EXPECT_EQ(in[3], 0xff);
}

TEST_F(SerialTest, InputArrivesInOrderWithAndWithoutFifos) {
  serial_.PushInput("one");
  EXPECT_EQ(ReadAll(), "one");
  EnableFifos();
  serial_.PushInput(std::string(40, 'z') + "!");
  EXPECT_EQ(ReadAll(), std::string(40, 'z') + "!");
  EXPECT_EQ(serial_.Read(kRbr), 0);
}

TEST_F(SerialTest, InputBeyondTheLimitIsRefused) {
  // One byte sits in the receiver already.
  EXPECT_EQ(serial_.PushInput("x"), 1u);
  EXPECT_EQ(serial_.PushInput(std::string(kInputLimit + 100, 'y')), kInputLimit);
  EXPECT_EQ(serial_.PushInput("z"), 0u);
  EXPECT_EQ(ReadAll().size(), kInputLimit + 1);
}

TEST_F(SerialTest, ReceivedDataRaisesAnInterruptUntilItIsRead) {
  serial_.Write(kIer, kIerReceived);
  serial_.PushInput("a");
  EXPECT_TRUE(level_);
  EXPECT_EQ(serial_.Read(kIir), kIirReceived);
  EXPECT_EQ(serial_.Read(kRbr), 'a');
  EXPECT_FALSE(level_);
  EXPECT_EQ(serial_.Read(kIir), kIirNone);
}

TEST_F(SerialTest, TheLineFallsBetweenBytesSoThatEdgesAreSeen) {
  serial_.Write(kIer, kIerReceived);
  serial_.PushInput("abc");
  serial_.Read(kRbr);
  serial_.Read(kRbr);
  serial_.Read(kRbr);
  EXPECT_EQ(edges_, 3);
  EXPECT_FALSE(level_);
}

TEST_F(SerialTest, FifoBelowItsTriggerLevelReportsATimeout) {
  EnableFifos(/*trigger_bits=*/1);  // 4 bytes
  serial_.Write(kIer, kIerReceived);
  serial_.PushInput("abc");
  EXPECT_EQ(serial_.Read(kIir), kIirTimeout | kIirFifosOn);
  EXPECT_EQ(ReadAll(), "abc");
  serial_.PushInput("abcd");
  EXPECT_EQ(serial_.Read(kIir), kIirReceived | kIirFifosOn);
}

TEST_F(SerialTest, SwitchingTheFifosEmptiesThem) {
  EnableFifos();
  serial_.PushInput("abc");
  serial_.Write(kFcr, 0);
  EXPECT_EQ(serial_.Read(kLsr) & kLsrDataReady, 0);
  EXPECT_EQ(serial_.Read(kIir) & kIirFifosOn, 0);
}

TEST_F(SerialTest, TheReceiverFifoCanBeCleared) {
  EnableFifos();
  serial_.PushInput("abc");
  serial_.Write(kFcr, kFcrEnable | kFcrClearReceiver);
  EXPECT_EQ(ReadAll(), "");
}

TEST_F(SerialTest, EnablingTheTransmitterInterruptRaisesItAndReadingIirClearsIt) {
  serial_.Write(kIer, kIerTransmitEmpty);
  EXPECT_TRUE(level_);
  EXPECT_EQ(serial_.Read(kIir), kIirTransmitEmpty);
  EXPECT_FALSE(level_);
  EXPECT_EQ(serial_.Read(kIir), kIirNone);
  serial_.Write(kThr, 'x');
  EXPECT_TRUE(level_);
  EXPECT_EQ(edges_, 2);
}

TEST_F(SerialTest, EachByteWrittenMakesAnEdge) {
  serial_.Write(kIer, kIerTransmitEmpty);
  serial_.Write(kThr, 'x');
  serial_.Write(kThr, 'y');
  EXPECT_EQ(edges_, 3);
}

TEST_F(SerialTest, InterruptsAreReportedByPriority) {
  serial_.Write(kMcr, kMcrLoop);  // CTS, DSR and DCD fall: modem status
  serial_.Write(kIer, 0x0f);
  serial_.Write(kThr, 'a');
  serial_.Write(kThr, 'b');  // overrun
  EXPECT_EQ(serial_.Read(kIir), kIirLineStatus);
  EXPECT_EQ(serial_.Read(kLsr) & kLsrOverrun, kLsrOverrun);
  EXPECT_EQ(serial_.Read(kIir), kIirReceived);
  EXPECT_EQ(serial_.Read(kRbr), 'b');
  EXPECT_EQ(serial_.Read(kIir), kIirTransmitEmpty);
  EXPECT_EQ(serial_.Read(kIir), kIirModemStatus);
  EXPECT_NE(serial_.Read(kMsr) & 0x0f, 0);
  EXPECT_EQ(serial_.Read(kIir), kIirNone);
  EXPECT_FALSE(level_);
}

TEST_F(SerialTest, LoopbackReturnsTheByteAndSendsNothing) {
  serial_.Write(kMcr, kMcrLoop);
  serial_.Write(kThr, 0xa5);
  EXPECT_EQ(serial_.Read(kRbr), 0xa5);
  serial_.Flush();
  EXPECT_EQ(out_, "");
  EXPECT_EQ(serial_.PushInput("x"), 0u);
}

TEST_F(SerialTest, LoopbackWiresModemOutputsToInputs) {
  serial_.Write(kMcr, kMcrLoop);
  serial_.Read(kMsr);
  serial_.Write(kMcr, kMcrLoop | kMcrRts);
  EXPECT_EQ(serial_.Read(kMsr), kMsrCts | kMsrDeltaCts);
  serial_.Write(kMcr, kMcrLoop | kMcrDtr | kMcrOut1 | kMcrOut2);
  EXPECT_EQ(serial_.Read(kMsr), kMsrDsr | kMsrRi | kMsrDcd | kMsrDeltaCts | kMsrDeltaDsr | kMsrDeltaDcd);
  serial_.Write(kMcr, kMcrLoop | kMcrDtr | kMcrOut2);
  EXPECT_EQ(serial_.Read(kMsr), kMsrDsr | kMsrDcd | kMsrTrailingRi);
  EXPECT_EQ(serial_.Read(kMsr), kMsrDsr | kMsrDcd);
}

TEST_F(SerialTest, LoopbackOverrunOfTheFifoKeepsTheOldestBytes) {
  EnableFifos();
  serial_.Write(kMcr, kMcrLoop);
  for (int i = 0; i < 20; ++i) serial_.Write(kThr, static_cast<uint8_t>(i));
  EXPECT_EQ(serial_.Read(kLsr) & kLsrOverrun, kLsrOverrun);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(serial_.Read(kRbr), i);
  EXPECT_EQ(serial_.Read(kLsr) & kLsrDataReady, 0);
}

TEST_F(SerialTest, LoopbackBreakIsAZeroByteWithBreakIndicated) {
  serial_.Write(kMcr, kMcrLoop);
  serial_.Write(kLcr, 0x03 | kLcrBreak);
  EXPECT_EQ(serial_.Read(kLsr) & (kLsrBreak | kLsrDataReady), kLsrBreak | kLsrDataReady);
  EXPECT_EQ(serial_.Read(kLsr) & kLsrBreak, 0);
  EXPECT_EQ(serial_.Read(kRbr), 0);
}

TEST_F(SerialTest, WordLengthLimitsTheBitsSent) {
  serial_.Write(kLcr, 0x02);  // 7 bits
  serial_.Write(kMcr, kMcrLoop);
  serial_.Write(kThr, 0xc1);
  EXPECT_EQ(serial_.Read(kRbr), 0x41);
}

TEST_F(SerialTest, TheTestThatOperatingSystemsProbeWithSucceeds) {
  // Linux autoconfig(): IER keeps 0x0f, loopback shows MSR 0x90 for OUT2|RTS, IIR shows FIFOs once enabled.
  serial_.Write(kIer, 0);
  EXPECT_EQ(serial_.Read(kIer) & 0x0f, 0);
  serial_.Write(kIer, 0x0f);
  EXPECT_EQ(serial_.Read(kIer) & 0x0f, 0x0f);
  serial_.Write(kIer, 0);
  serial_.Write(kMcr, kMcrLoop | kMcrOut2 | kMcrRts);
  EXPECT_EQ(serial_.Read(kMsr) & 0xf0, 0x90);
  serial_.Write(kMcr, 0);
  serial_.Write(kFcr, kFcrEnable);
  EXPECT_EQ(serial_.Read(kIir) >> 6, 3);
}

TEST_F(SerialTest, GuestAndHostMayUseItAtTheSameTime) {
  serial_.Write(kIer, 0x0f);
  std::thread host([this] {
    for (int i = 0; i < 2000; ++i) serial_.PushInput("ab");
  });
  for (int i = 0; i < 20000; ++i) {
    serial_.Write(static_cast<uint16_t>(i % 3 == 0 ? kThr : kScr), static_cast<uint8_t>(i));
    serial_.Read(static_cast<uint16_t>(i % 8));
  }
  host.join();
}

}  // namespace
}  // namespace sluice::serial
