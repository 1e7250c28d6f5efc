// Resources with queues, with the semantics of SimPy: slots that processes request, stores of
// items, containers of an amount. Their operations are events; what SimPy does when an event is
// processed is done in `prepare`, so that simultaneous operations are served in the same order.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <set>
#include <vector>

#include "bind/environment.hpp"

namespace twinloop::bind {

class BaseResource;
class OperationList;

// A request, release, put or get: an event that happens when its resource has carried it out.
class Operation : public Event {
  public:
    Operation(nb::handle owner, nb::handle argument);
    ~Operation() override { Operation::release(); }
    [[nodiscard]] BaseResource& resource() const;
    [[nodiscard]] nb::handle resource_object() const { return owner_; }
    [[nodiscard]] nb::handle process_object() const { return process_; }
    [[nodiscard]] nb::handle argument() const { return argument_; }
    // Removes it from its queue if it is still there.
    virtual void cancel() = 0;
    // Sets the value, and schedules the event.
    void complete(nb::object value) { trigger(object, std::move(value), true); }
    int traverse(visitproc visit, void* arg) override;
    void release() override;

    PyObject* object = nullptr;  // the Python object of this part, borrowed
    // Position in the list that holds it, if any.
    OperationList* list = nullptr;
    Operation* before = nullptr;
    Operation* after = nullptr;

  private:
    PyObject* owner_ = nullptr;
    PyObject* process_ = nullptr;   // that was running, if any
    PyObject* argument_ = nullptr;  // an item, an amount, a filter, a priority or a request, if any
};

class Put : public Operation {
  public:
    using Operation::Operation;
    void cancel() override;
    void prepare(nb::handle self) override;
};

class Get : public Operation {
  public:
    using Operation::Operation;
    void cancel() override;
    void prepare(nb::handle self) override;
};

class Request : public Put {
  public:
    using Put::Put;
    void prepare(nb::handle /*self*/) override {}  // no release ever waits

    double usage_since = std::numeric_limits<double>::quiet_NaN();
};

class PriorityRequest final : public Request {
  public:
    PriorityRequest(nb::handle owner, nb::handle priority, bool preempt);
    // The order of service: by priority, time and preemption, not by arrival.
    [[nodiscard]] bool precedes(const PriorityRequest& other) const;

    bool preempt;
    bool queued = false;
    double priority = 0.0;
    double time = 0.0;
    std::uint64_t arrival = 0;
};

class Release final : public Get {
  public:
    using Get::Get;
};

class StorePut final : public Put {
  public:
    using Put::Put;
};

class StoreGet : public Get {
  public:
    using Get::Get;
};

class FilterStoreGet final : public StoreGet {
  public:
    using StoreGet::StoreGet;
};

// A number that stays an integer in Python as long as only integers are added to it.
struct Amount {
    double value = 0.0;
    bool whole = true;
};

class ContainerPut final : public Put {
  public:
    ContainerPut(nb::handle owner, nb::handle argument, Amount amount)
        : Put(owner, argument), amount(amount) {}
    Amount amount;
};

class ContainerGet final : public Get {
  public:
    ContainerGet(nb::handle owner, nb::handle argument, Amount amount)
        : Get(owner, argument), amount(amount) {}
    Amount amount;
};

// Operations in order of arrival, each with a reference; an operation is in one list at most.
class OperationList {
  public:
    OperationList() = default;
    OperationList(const OperationList&) = delete;
    OperationList& operator=(const OperationList&) = delete;
    OperationList(OperationList&&) = delete;
    OperationList& operator=(OperationList&&) = delete;
    ~OperationList() { clear(); }

    void append(Operation& operation);
    // Returns the reference that the list held.
    nb::object remove(Operation& operation);
    [[nodiscard]] Operation* first() const { return first_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    void clear();
    int traverse(visitproc visit, void* arg) const;

  private:
    Operation* first_ = nullptr;
    Operation* last_ = nullptr;
    std::size_t size_ = 0;
};

// The parts of a resource that programs can look at.
enum class Content : std::uint8_t { puts, gets, users, items };

class BaseResource {
  public:
    BaseResource(nb::handle env, nb::handle capacity);
    BaseResource(const BaseResource&) = delete;
    BaseResource& operator=(const BaseResource&) = delete;
    BaseResource(BaseResource&&) = delete;
    BaseResource& operator=(BaseResource&&) = delete;
    virtual ~BaseResource() { BaseResource::release(); }

    [[nodiscard]] Environment& env() const { return part<Environment>(env_); }
    [[nodiscard]] nb::handle env_object() const { return env_; }
    [[nodiscard]] nb::handle capacity_object() const { return capacity_; }

    // Appends a new operation to its queue and serves the queue.
    nb::object submit_put(nb::object operation);
    nb::object submit_get(nb::object operation);
    // Carries out what is possible: in SimPy called when an operation is made, and when one of the
    // other queue has happened.
    virtual void serve_puts() = 0;
    virtual void serve_gets() = 0;
    virtual void enqueue_put(Put& put) { puts.append(put); }
    virtual void withdraw_put(Put& put);
    void withdraw_get(Get& get);

    [[nodiscard]] virtual std::size_t size(Content content) const;
    [[nodiscard]] virtual nb::list list(Content content) const;
    virtual int traverse(visitproc visit, void* arg) const;
    virtual void release();

    OperationList puts;
    OperationList gets;

  protected:
    [[nodiscard]] bool has_space(std::size_t used) const {
        return static_cast<double>(used) < limit_;
    }
    // While it lives, code of the program (a filter, a comparison) must not use the resource.
    class Locked {
      public:
        explicit Locked(BaseResource& resource) : resource_(resource) { resource_.locked_ = true; }
        Locked(const Locked&) = delete;
        Locked& operator=(const Locked&) = delete;
        Locked(Locked&&) = delete;
        Locked& operator=(Locked&&) = delete;
        ~Locked() { resource_.locked_ = false; }

      private:
        BaseResource& resource_;
    };

    double limit_;

  private:
    void check_unlocked() const;

    bool locked_ = false;
    PyObject* env_ = nullptr;
    PyObject* capacity_ = nullptr;
};

class QueueingResource : public BaseResource {
  public:
    using BaseResource::BaseResource;
    ~QueueingResource() override { QueueingResource::release(); }

    nb::object request(nb::handle self);
    // Frees the slot of the request, if it has one; the queue is served when the release happens.
    void free(Request& request);
    void serve_puts() override;
    void serve_gets() override {}
    [[nodiscard]] std::size_t size(Content content) const override;
    [[nodiscard]] nb::list list(Content content) const override;
    int traverse(visitproc visit, void* arg) const override;
    void release() override;

    OperationList users;

  protected:
    // Gives a slot to a request that is in no queue.
    void grant(Request& request);
    virtual void add_user(Request& request) { users.append(request); }
    virtual void remove_user(Request& request) { (void)users.remove(request); }
};

class PriorityResource : public QueueingResource {
  public:
    using QueueingResource::QueueingResource;
    ~PriorityResource() override { PriorityResource::release(); }

    nb::object request(nb::handle self, nb::handle priority, bool preempt);
    void serve_puts() override;
    void enqueue_put(Put& put) override;
    void withdraw_put(Put& put) override;
    [[nodiscard]] std::size_t size(Content content) const override;
    [[nodiscard]] nb::list list(Content content) const override;
    int traverse(visitproc visit, void* arg) const override;
    void release() override;

  protected:
    struct Earlier {
        bool operator()(const PriorityRequest* a, const PriorityRequest* b) const;
    };
    // Each with a reference. A tree, not a heap: `queue` is shown in the order of service.
    std::set<PriorityRequest*, Earlier> waiting_;

  private:
    std::uint64_t arrivals_ = 0;
};

class PreemptiveResource final : public PriorityResource {
  public:
    using PriorityResource::PriorityResource;
    ~PreemptiveResource() override { PreemptiveResource::release(); }

    void serve_puts() override;
    void release() override;

  protected:
    void add_user(Request& request) override;
    void remove_user(Request& request) override;

  private:
    // Among equal users, the one that came first is preempted first, as in SimPy.
    struct MoreUrgent {
        bool operator()(const PriorityRequest* a, const PriorityRequest* b) const;
    };
    void preempt_for(PriorityRequest& request);

    std::set<PriorityRequest*, MoreUrgent> ranked_;  // the users; their references are in `users`
};

class Store : public BaseResource {
  public:
    using BaseResource::BaseResource;
    ~Store() override { Store::release(); }

    void serve_puts() override;
    void serve_gets() override;
    [[nodiscard]] std::size_t size(Content content) const override;
    [[nodiscard]] nb::list list(Content content) const override;
    int traverse(visitproc visit, void* arg) const override;
    void release() override;

  protected:
    virtual void add_item(nb::handle item);
    [[nodiscard]] virtual nb::object take_item();

    std::deque<PyObject*> items_;
};

// Items in a binary heap, by the algorithm of Python's heapq: equal items leave in the same order.
class PriorityStore final : public Store {
  public:
    PriorityStore(nb::handle env, nb::handle capacity);

  protected:
    void add_item(nb::handle item) override;
    [[nodiscard]] nb::object take_item() override;

  private:
    [[nodiscard]] bool less(PyObject* a, PyObject* b) const;

    PyTypeObject* wrapper_;          // PriorityItem
    std::vector<std::size_t> path_;  // from the root to a leaf
};

class FilterStore final : public Store {
  public:
    using Store::Store;
    void serve_gets() override;

  private:
    // The index of the first item that the filter of `get` accepts, or the number of items.
    [[nodiscard]] std::size_t find_item(const Operation& get);
};

class Container final : public BaseResource {
  public:
    Container(nb::handle env, nb::handle capacity, nb::handle init);
    void serve_puts() override;
    void serve_gets() override;
    [[nodiscard]] nb::object level() const;

  private:
    Amount level_;
};

// Cause of the interrupt of a process that has lost its slot.
class Preempted {
  public:
    Preempted(nb::handle by, nb::handle resource, double usage_since)
        : usage_since(usage_since), by_(by.inc_ref().ptr()), resource_(resource.inc_ref().ptr()) {}
    Preempted(const Preempted&) = delete;
    Preempted& operator=(const Preempted&) = delete;
    Preempted(Preempted&&) = delete;
    Preempted& operator=(Preempted&&) = delete;
    ~Preempted() { release(); }
    [[nodiscard]] nb::handle by() const { return by_; }
    [[nodiscard]] nb::handle resource() const { return resource_; }
    int traverse(visitproc visit, void* arg) const;
    void release();

    double usage_since;

  private:
    PyObject* by_;
    PyObject* resource_;
};

// A read-only view of a queue, of the users or of the items, as they are when it is read.
class SequenceView {
  public:
    SequenceView(nb::handle owner, Content content)
        : owner_(owner.inc_ref().ptr()), content_(content) {}
    SequenceView(const SequenceView&) = delete;
    SequenceView& operator=(const SequenceView&) = delete;
    SequenceView(SequenceView&&) = delete;
    SequenceView& operator=(SequenceView&&) = delete;
    ~SequenceView() { release(); }
    [[nodiscard]] std::size_t size() const;
    [[nodiscard]] nb::list list() const;
    int traverse(visitproc visit, void* arg) const;
    void release();

  private:
    PyObject* owner_;
    Content content_;
};

[[nodiscard]] Amount amount_from(nb::handle given);

}  // namespace twinloop::bind
