// Against a second use of an object while a first one goes on: by another thread, as the
// interpreter is let go while a simulation runs, or by a policy in Python that the first use has
// called.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

namespace twinloop::bind {

class InUse {
  public:
    // `what`: what the object is, in the message of the error.
    explicit InUse(const char* what) : what_(what) {}

    // Holds the object for the calling thread; raises InUseError if it is held already.
    void take();
    [[nodiscard]] bool held() const { return owner_.load() != std::thread::id(); }
    void leave() { owner_.store(std::thread::id()); }
    // Raises InUseError if another thread holds the object; its own policy may look at it.
    void check_thread() const;

  private:
    [[noreturn]] void refuse(bool own_policy) const;

    const char* what_;
    std::atomic<std::thread::id> owner_{};
};

// What is behind the guard, for as long as this lives.
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
