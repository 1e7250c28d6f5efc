// Entry point of libFuzzer.
#include <cstddef>
#include <cstdint>

#include "world_program.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    run_world_program({data, size});
    return 0;
}
