// Entry point of libFuzzer.
#include <cstddef>
#include <cstdint>

#include "texts.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    check_parsers({data, size});
    return 0;
}
