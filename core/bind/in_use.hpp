// Guard against concurrent use of an object: by another thread, since the interpreter lock is
// released while a simulation runs, or by a policy in Python that the running call has called.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

namespace twinloop::bind {

class InUse {
  public:
    // `what`: the object, as named in the error message.
    explicit InUse(const char* what) : what_(what) {}

    // Holds the object for the calling thread; raises InUseError if it is held already.
    void take();
    [[nodiscard]] bool held() const { return owner_.load() != std::thread::id(); }
    void leave() { owner_.store(std::thread::id()); }
    // Raises InUseError if another thread holds the object; its own policy may read it.
    void check_thread() const;

  private:
    [[noreturn]] void refuse(bool own_policy) const;

    const char* what_;
    std::atomic<std::thread::id> owner_{};
};

// Access to the guarded object during the lifetime of this handle.
template <class T>
class Held {
  public:
    Held(T& held, std::shared_ptr<InUse> guard) : held_(held), guard_(std::move(guard)) {
        guard_->take();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;
    Held(Held&&) = delete;
    Held& operator=(Held&&) = delete;
    ~Held() { guard_->leave(); }

    T* operator->() const { return &held_; }
    T& operator*() const { return held_; }

  private:
    T& held_;
    std::shared_ptr<InUse> guard_;
};

}  // namespace twinloop::bind
