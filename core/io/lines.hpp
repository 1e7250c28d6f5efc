// Cuts a stream of bytes into lines, wherever the pieces of the stream begin and end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace twinloop::io {

// A line that is longer than this holds no record: only its beginning is kept.
inline constexpr std::size_t longest_line = std::size_t{1} << 20;

class Lines {
  public:
    // Calls take(line, number, too_long) for each line that is complete. LF, CR LF and CR end a
    // line, also mixed; a byte order mark of UTF-8 at the very beginning is not part of the text.
    template <class Take>
    void feed(std::string_view bytes, Take&& take) {
        bytes = without_mark(bytes);
        const char* at = bytes.data();
        const char* const end = at + bytes.size();
        if (at != end && after_cr_) {
            after_cr_ = false;
            if (*at == '\n') ++at;
        }
        // Each is looked for again only when it was passed, so that the whole takes linear time.
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

    // The last line, if it was not ended.
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
        // One byte more than a line may have shows that it was too long.
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

    std::string kept_;  // a line that is not complete
    std::uint64_t count_ = 0;
    std::size_t mark_ = 0;  // bytes of the mark that have been seen
    bool after_cr_ = false;
};

}  // namespace twinloop::io
