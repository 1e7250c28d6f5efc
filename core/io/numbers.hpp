// Exact parsing of decimal numbers.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <locale>
#include <sstream>
#include <string>

namespace twinloop::io {

enum class Reading : std::uint8_t { ok, malformed, not_whole, out_of_range };

enum class Grammar : std::uint8_t { json, loose };

// digits * 10^exponent, as written in [begin, end).
struct Decimal {
    const char* begin = nullptr;
    const char* end = nullptr;
    std::uint64_t digits = 0;
    std::int64_t exponent = 0;
    bool negative = false;
    bool complete = true;  // no digit but zeros beyond the first 19 significant ones
};

// Reads the number at the beginning of [at, end). JSON requires digits on both sides of the point
// and no leading zeros.
template <Grammar grammar>
bool scan_decimal(const char* at, const char* end, Decimal& out) {
    constexpr std::uint64_t nearly_full = 1'000'000'000'000'000'000;  // one digit more still fits
    const auto digit = [&] { return static_cast<unsigned>(*at - '0'); };
    out = {.begin = at};
    if (at != end && *at == '-') {
        out.negative = true;
        ++at;
    }
    std::int64_t dropped = 0;
    const auto take = [&] {
        const char* const first = at;
        for (; at != end && digit() < 10; ++at) {
            if (out.digits < nearly_full) {
                out.digits = out.digits * 10 + digit();
            } else {
                ++dropped;
                out.complete = out.complete && *at == '0';
            }
        }
        return at - first;
    };
    const char* const whole = at;
    auto count = take();
    if constexpr (grammar == Grammar::json)
        if (count == 0 || (count > 1 && *whole == '0')) return false;
    if (at != end && *at == '.') {
        ++at;
        const auto fraction = take();
        if (grammar == Grammar::json && fraction == 0) return false;
        count += fraction;
        out.exponent -= fraction;
    }
    if (count == 0) return false;
    out.exponent += dropped;
    if (at != end && (*at == 'e' || *at == 'E')) {
        ++at;
        const bool down = at != end && *at == '-';
        if (at != end && (*at == '-' || *at == '+')) ++at;
        if (at == end || digit() >= 10) return false;
        std::int64_t power = 0;
        for (; at != end && digit() < 10; ++at)
            if (power < 1'000'000'000) power = power * 10 + digit();
        out.exponent += down ? -power : power;
    }
    out.end = at;
    return true;
}

// Fast path for most numbers: the value of the digits at the beginning of [at, end) and the
// position after them; nullptr if there are none, or too many to fit.
inline const char* scan_digits(const char* at, const char* end, std::int64_t& out) {
    constexpr std::ptrdiff_t most = 15;
    const char* const begin = at;
    std::int64_t value = 0;
    for (; at != end; ++at) {
        const auto digit = static_cast<unsigned>(*at - '0');
        if (digit > 9) break;
        value = value * 10 + digit;
        if (at - begin == most) return nullptr;
    }
    out = value;
    return at == begin ? nullptr : at;
}

inline Reading to_int64(Decimal number, std::int64_t limit, std::int64_t& out) {
    if (number.digits == 0) {
        out = 0;
        return Reading::ok;
    }
    const auto most = static_cast<std::uint64_t>(limit);
    for (; number.exponent < 0 && number.digits % 10 == 0; ++number.exponent) number.digits /= 10;
    if (number.exponent < 0) return Reading::not_whole;
    if (!number.complete) return Reading::out_of_range;
    for (; number.exponent > 0; --number.exponent) {
        if (number.digits > most / 10) return Reading::out_of_range;
        number.digits *= 10;
    }
    if (number.digits > most) return Reading::out_of_range;
    out = static_cast<std::int64_t>(number.digits);
    if (number.negative) out = -out;
    return Reading::ok;
}

// The nearest double by the standard library, where the fast path below is not exact.
inline double nearest(const Decimal& number) {
    double value = std::numeric_limits<double>::infinity();
#if defined(__cpp_lib_to_chars)
    const auto result = std::from_chars(number.begin, number.end, value);
    if (result.ec != std::errc()) return std::numeric_limits<double>::infinity();
#else
    std::istringstream stream(std::string(number.begin, number.end));
    stream.imbue(std::locale::classic());
    stream >> value;
    if (!stream) return std::numeric_limits<double>::infinity();
#endif
    return value;
}

inline Reading to_float64(const Decimal& number, double limit, double& out) {
    static constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                        1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                        1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    constexpr std::uint64_t exact = std::uint64_t{1} << 53;
    const std::int64_t power = number.exponent;
    if (number.complete && number.digits <= exact && power >= -22 && power <= 22) {
        // Both are exact, so the one operation rounds once.
        const auto digits = static_cast<double>(number.digits);
        out = power < 0 ? digits / powers[-power] : digits * powers[power];
        if (number.negative) out = -out;
    } else if (number.digits == 0) {
        out = number.negative ? -0.0 : 0.0;
    } else {
        out = nearest(number);
        if (out == 0.0) return Reading::out_of_range;
    }
    return std::fabs(out) <= limit ? Reading::ok : Reading::out_of_range;
}

}  // namespace twinloop::io
