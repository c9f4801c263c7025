// Asio is header-only by default; this is its one separately compiled translation unit.
#include <asio/impl/src.hpp>
