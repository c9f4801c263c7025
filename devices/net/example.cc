// A guest's driver and a program on the host that exchange an Ethernet frame each way, without a VM and without
// privilege.
#include <cstdio>

#include "devices/net/testing/net_driver.h"

int main() {
  namespace net = sluice::net;
  net::testing::NetDriver driver;  // a device, and a driver that uses its queues
  const net::testing::Bytes frame = net::testing::MakeFrame(64);

  driver.PostReceive(1526);
  if (!net::SendFrame(driver.wire(), frame).ok()) return 1;
  driver.Pump();
  std::printf("to the guest: %zu buffer(s), %llu bytes\n", driver.received().size(),
              static_cast<unsigned long long>(driver.device().counters().rx_bytes));

  driver.Transmit({}, frame);
  const auto sent = driver.NextOnWire();
  if (!sent.has_value()) return 1;
  std::printf("from the guest: %zu bytes\n", sent->size());
  return driver.received().size() == 1 && *sent == frame ? 0 : 1;
}
