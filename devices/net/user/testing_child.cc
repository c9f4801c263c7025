// What net_user_test.cc starts: the body of "sluice net-user".
#include <cstring>

#include "devices/net/user/net_user.h"

int main(int argc, char** argv) {
  if (argc < 2 || std::strcmp(argv[1], sluice::net::kNetUserVerb) != 0) return 2;
  return sluice::net::NetUserMain(argc - 2, argv + 2);
}
