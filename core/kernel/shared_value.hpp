// A value that copies share until one of them changes it. A copy thus costs a pointer.
//
// Copies may be used and destroyed on other threads. To copy a value is to change it: no other
// thread may use it at that time.
#pragma once

#include <memory>

namespace twinloop {

template <class Value>
class SharedValue {
  public:
    SharedValue() = default;
    SharedValue(const SharedValue& other) : value_(other.value_), is_shared_(true) {
        other.is_shared_ = true;  // NOLINT(bugprone-copy-constructor-mutates-argument)
    }
    SharedValue(SharedValue&&) noexcept = default;
    SharedValue& operator=(const SharedValue&) = delete;
    SharedValue& operator=(SharedValue&&) noexcept = default;
    ~SharedValue() = default;

    [[nodiscard]] const Value* operator->() const {
        static const Value empty;
        return value_ ? value_.get() : &empty;
    }
    // The value, to be changed: copies have another one from then on.
    [[nodiscard]] Value& edit() {
        if (!value_ || is_shared_) value_ = std::make_shared<Value>(*operator->());
        is_shared_ = false;
        return *value_;
    }
    void clear() { value_.reset(); }

  private:
    std::shared_ptr<Value> value_;  // null: as constructed by default
    mutable bool is_shared_ = false;
};

}  // namespace twinloop
