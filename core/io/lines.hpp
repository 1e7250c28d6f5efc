// Splits a stream of bytes into lines, independent of the pieces in which it arrives.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace twinloop::io {

// Maximum length of a record; of longer lines only the beginning is kept.
inline constexpr std::size_t longest_line = std::size_t{1} << 20;

class Lines {
  public:
    // Calls take(line, number, too_long) for each complete line. LF, CR LF and CR end a
    // line, also mixed; a UTF-8 byte order mark at the beginning is removed.
    template <class Take>
    void feed(std::string_view bytes, Take&& take) {
        bytes = without_mark(bytes);
        const char* at = bytes.data();
        const char* const end = at + bytes.size();
        if (at != end && after_cr_) {
            after_cr_ = false;
            if (*at == '\n') ++at;
        }
        // Each is searched again only after it was passed, so that the total time is linear.
        const char* lf = find(at, end, '\n');
        const char* cr = find(at, end, '\r');
        while (at != end) {
            if (lf && lf < at) lf = find(at, end, '\n');
            if (cr && cr < at) cr = find(at, end, '\r');
            const char* const stop = lf && cr ? std::min(lf, cr) : (lf ? lf : cr);
            if (!stop) {
                keep({at, static_cast<std::size_t>(end - at)});
                return;
            }
            emit({at, static_cast<std::size_t>(stop - at)}, take);
            at = stop + 1;
            if (stop == cr) {
                after_cr_ = at == end;
                if (at != end && *at == '\n') ++at;
            }
        }
    }

    // The last line, if it has no line end.
    template <class Take>
    void finish(Take&& take) {
        if (mark_ < sizeof mark) keep({mark, std::exchange(mark_, sizeof mark)});
        if (!kept_.empty()) emit({}, take);
    }

  private:
    static constexpr char mark[] = {'\xEF', '\xBB', '\xBF'};

    static const char* find(const char* at, const char* end, char wanted) {
        return at == end ? nullptr : static_cast<const char*>(std::memchr(at, wanted, end - at));
    }

    std::string_view without_mark(std::string_view bytes) {
        while (mark_ < sizeof mark && !bytes.empty()) {
            if (bytes.front() != mark[mark_]) {
                keep({mark, std::exchange(mark_, sizeof mark)});
                break;
            }
            ++mark_;
            bytes.remove_prefix(1);
        }
        return bytes;
    }

    void keep(std::string_view part) {
        // One byte more than the maximum marks a line as too long.
        kept_.append(part.substr(0, longest_line + 1 - kept_.size()));
    }

    template <class Take>
    void emit(std::string_view line, Take&& take) {
        if (!kept_.empty()) {
            keep(line);
            line = kept_;
        }
        take(line.substr(0, longest_line), ++count_, line.size() > longest_line);
        kept_.clear();
    }

    std::string kept_;  // an incomplete line
    std::uint64_t count_ = 0;
    std::size_t mark_ = 0;  // bytes of the mark read so far
    bool after_cr_ = false;
};

}  // namespace twinloop::io
