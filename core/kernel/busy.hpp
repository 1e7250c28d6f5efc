// Sets a flag during its lifetime, as a guard against reentrant calls.
#pragma once

namespace twinloop {

class Busy {
  public:
    explicit Busy(bool& flag) : flag_(flag) { flag_ = true; }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
    Busy(Busy&&) = delete;
    Busy& operator=(Busy&&) = delete;
    ~Busy() { flag_ = false; }

  private:
    bool& flag_;
};

}  // namespace twinloop
