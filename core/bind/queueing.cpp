#include "bind/queueing.hpp"

#include <cmath>
#include <tuple>

#include "kernel/checks.hpp"

namespace twinloop::bind {

// ---- Operation ----------------------------------------------------------------------------------

Operation::Operation(nb::handle owner, nb::handle argument)
    : Event(part<BaseResource>(owner).env_object()) {
    if (!env_) throw std::runtime_error("the environment of the resource no longer exists");
    process_ = nb::handle(env().active).inc_ref().ptr();
    owner_ = owner.inc_ref().ptr();
    argument_ = argument.inc_ref().ptr();
}

BaseResource& Operation::resource() const { return part<BaseResource>(owner_); }

int Operation::traverse(visitproc visit, void* arg) {
    Py_VISIT(owner_);
    Py_VISIT(process_);
    Py_VISIT(argument_);
    return Event::traverse(visit, arg);
}

void Operation::release() {
    Py_CLEAR(argument_);
    Py_CLEAR(process_);
    Py_CLEAR(owner_);
    Event::release();
}

void Put::cancel() {
    if (stage == Stage::pending && resource_object().is_valid()) resource().withdraw_put(*this);
}

void Put::prepare(nb::handle /*self*/) { resource().serve_gets(); }

void Get::cancel() {
    if (stage == Stage::pending && resource_object().is_valid()) resource().withdraw_get(*this);
}

void Get::prepare(nb::handle /*self*/) { resource().serve_puts(); }

PriorityRequest::PriorityRequest(nb::handle owner, nb::handle given, bool preempt)
    : Request(owner, given), preempt(preempt), time(env().sim.now()) {
    if (!given.is_valid()) return;
    priority = PyFloat_AsDouble(given.ptr());
    if (priority == -1.0 && PyErr_Occurred()) throw nb::python_error();
    if (std::isnan(priority)) throw std::invalid_argument("priority must be a number, got nan");
}

bool PriorityRequest::precedes(const PriorityRequest& other) const {
    return std::tuple(priority, time, !preempt) <
           std::tuple(other.priority, other.time, !other.preempt);
}

// ---- OperationList ------------------------------------------------------------------------------

void OperationList::append(Operation& operation) {
    Py_INCREF(operation.object);
    operation.list = this;
    operation.before = last_;
    operation.after = nullptr;
    (last_ ? last_->after : first_) = &operation;
    last_ = &operation;
    ++size_;
}

nb::object OperationList::remove(Operation& operation) {
    (operation.before ? operation.before->after : first_) = operation.after;
    (operation.after ? operation.after->before : last_) = operation.before;
    operation.list = nullptr;
    --size_;
    return nb::steal(operation.object);
}

void OperationList::clear() {
    while (first_) (void)remove(*first_);
}

int OperationList::traverse(visitproc visit, void* arg) const {
    for (const Operation* each = first_; each; each = each->after) Py_VISIT(each->object);
    return 0;
}

namespace {

nb::list list_operations(const OperationList& operations) {
    nb::list list;
    for (const Operation* each = operations.first(); each; each = each->after)
        list.append(nb::handle(each->object));
    return list;
}

}  // namespace

// ---- BaseResource -------------------------------------------------------------------------------

BaseResource::BaseResource(nb::handle env, nb::handle capacity) {
    if (Py_TYPE(env.ptr()) != types.environment)
        throw nb::type_error((std::string("expected an Environment of twinloop.engine, got ") +
                              nb::repr(env).c_str())
                                 .c_str());
    limit_ = PyFloat_AsDouble(capacity.ptr());
    if (limit_ == -1.0 && PyErr_Occurred()) throw nb::python_error();
    if (!(limit_ > 0.0)) refuse("capacity", "positive", limit_);
    env_ = env.inc_ref().ptr();
    capacity_ = capacity.inc_ref().ptr();
}

nb::object BaseResource::submit_put(nb::object operation) {
    check_unlocked();
    Put& put = part<Put>(operation);
    put.object = operation.ptr();
    enqueue_put(put);
    try {
        serve_puts();
    } catch (...) {
        put.cancel();  // the program never gets it
        throw;
    }
    return operation;
}

nb::object BaseResource::submit_get(nb::object operation) {
    check_unlocked();
    Get& get = part<Get>(operation);
    get.object = operation.ptr();
    gets.append(get);
    try {
        serve_gets();
    } catch (...) {
        get.cancel();
        throw;
    }
    return operation;
}

void BaseResource::withdraw_put(Put& put) {
    check_unlocked();
    if (put.list == &puts) (void)puts.remove(put);
}

void BaseResource::withdraw_get(Get& get) {
    check_unlocked();
    if (get.list == &gets) (void)gets.remove(get);
}

void BaseResource::check_unlocked() const {
    if (locked_)
        throw std::runtime_error(
            "the filters of a store and the comparisons of its items cannot use the store");
}

std::size_t BaseResource::size(Content content) const {
    return content == Content::puts ? puts.size() : gets.size();
}

nb::list BaseResource::list(Content content) const {
    return list_operations(content == Content::puts ? puts : gets);
}

int BaseResource::traverse(visitproc visit, void* arg) const {
    Py_VISIT(env_);
    Py_VISIT(capacity_);
    if (const int stop = puts.traverse(visit, arg)) return stop;
    return gets.traverse(visit, arg);
}

void BaseResource::release() {
    puts.clear();
    gets.clear();
    Py_CLEAR(capacity_);
    Py_CLEAR(env_);
}

// ---- Resource -----------------------------------------------------------------------------------

nb::object QueueingResource::request(nb::handle self) {
    return submit_put(make<Request>(types.request, self, nb::handle()));
}

void QueueingResource::free(Request& request) {
    if (request.list == &users) remove_user(request);
}

// One request at a time, as in SimPy: each release serves one.
void QueueingResource::serve_puts() {
    Operation* first = puts.first();
    if (!first || !has_space(users.size())) return;
    const nb::object held = puts.remove(*first);
    grant(static_cast<Request&>(*first));
}

void QueueingResource::grant(Request& request) {
    request.complete(nb::none());
    request.usage_since = env().sim.now();
    add_user(request);
}

std::size_t QueueingResource::size(Content content) const {
    return content == Content::users ? users.size() : BaseResource::size(content);
}

nb::list QueueingResource::list(Content content) const {
    return content == Content::users ? list_operations(users) : BaseResource::list(content);
}

int QueueingResource::traverse(visitproc visit, void* arg) const {
    if (const int stop = users.traverse(visit, arg)) return stop;
    return BaseResource::traverse(visit, arg);
}

void QueueingResource::release() {
    users.clear();
    BaseResource::release();
}

// ---- PriorityResource ---------------------------------------------------------------------------

bool PriorityResource::Earlier::operator()(const PriorityRequest* a,
                                           const PriorityRequest* b) const {
    return a->precedes(*b) || (!b->precedes(*a) && a->arrival < b->arrival);
}

nb::object PriorityResource::request(nb::handle self, nb::handle priority, bool preempt) {
    nb::object object = make<PriorityRequest>(types.priority_request, self, priority, preempt);
    PriorityRequest& request = part<PriorityRequest>(object);
    request.arrival = arrivals_++;
    if (!waiting_.empty() || !has_space(users.size())) return submit_put(std::move(object));
    request.object = object.ptr();
    grant(request);
    return object;
}

void PriorityResource::enqueue_put(Put& put) {
    auto& request = static_cast<PriorityRequest&>(put);
    waiting_.insert(&request);
    request.queued = true;
    Py_INCREF(request.object);
}

void PriorityResource::withdraw_put(Put& put) {
    auto& request = static_cast<PriorityRequest&>(put);
    if (!std::exchange(request.queued, false)) return;
    waiting_.erase(&request);
    Py_DECREF(request.object);
}

void PriorityResource::serve_puts() {
    if (waiting_.empty() || !has_space(users.size())) return;
    PriorityRequest& first = **waiting_.begin();
    const nb::object held = nb::borrow(first.object);
    withdraw_put(first);
    grant(first);
}

std::size_t PriorityResource::size(Content content) const {
    return content == Content::puts ? waiting_.size() : QueueingResource::size(content);
}

nb::list PriorityResource::list(Content content) const {
    if (content != Content::puts) return QueueingResource::list(content);
    nb::list list;
    for (const PriorityRequest* each : waiting_) list.append(nb::handle(each->object));
    return list;
}

int PriorityResource::traverse(visitproc visit, void* arg) const {
    for (const PriorityRequest* each : waiting_) Py_VISIT(each->object);
    return QueueingResource::traverse(visit, arg);
}

void PriorityResource::release() {
    while (!waiting_.empty()) withdraw_put(**waiting_.begin());
    QueueingResource::release();
}

// ---- PreemptiveResource -------------------------------------------------------------------------

bool PreemptiveResource::MoreUrgent::operator()(const PriorityRequest* a,
                                                const PriorityRequest* b) const {
    return a->precedes(*b) || (!b->precedes(*a) && a->arrival > b->arrival);
}

void PreemptiveResource::add_user(Request& request) {
    ranked_.insert(&static_cast<PriorityRequest&>(request));
    users.append(request);
}

void PreemptiveResource::remove_user(Request& request) {
    ranked_.erase(&static_cast<PriorityRequest&>(request));
    (void)users.remove(request);
}

void PreemptiveResource::serve_puts() {
    if (waiting_.empty()) return;
    if (!has_space(users.size())) preempt_for(**waiting_.begin());
    PriorityResource::serve_puts();
}

void PreemptiveResource::preempt_for(PriorityRequest& request) {
    PriorityRequest& victim = **ranked_.rbegin();
    if (!request.preempt || !request.precedes(victim)) return;
    const nb::object process = nb::borrow(victim.process_object());
    if (!process.is_valid())
        throw std::runtime_error("a request that was not made in a process cannot be preempted");
    part<Process>(process).check_interruptible(process);
    const nb::object cause = make<Preempted>(types.preempted, request.process_object(),
                                             victim.resource_object(), victim.usage_since);
    remove_user(victim);
    part<Process>(process).interrupt(process, cause);
}

void PreemptiveResource::release() {
    ranked_.clear();
    PriorityResource::release();
}

int Preempted::traverse(visitproc visit, void* arg) const {
    Py_VISIT(by_);
    Py_VISIT(resource_);
    return 0;
}

void Preempted::release() {
    Py_CLEAR(by_);
    Py_CLEAR(resource_);
}

// ---- Store --------------------------------------------------------------------------------------

// One put and one get at a time, as in SimPy.
void Store::serve_puts() {
    Operation* put = puts.first();
    if (!put || !has_space(items_.size())) return;
    add_item(put->argument());
    const nb::object held = puts.remove(*put);
    put->complete(nb::none());
}

void Store::serve_gets() {
    Operation* get = gets.first();
    if (!get || items_.empty()) return;
    nb::object item = take_item();
    const nb::object held = gets.remove(*get);
    get->complete(std::move(item));
}

void Store::add_item(nb::handle item) {
    items_.push_back(item.ptr());
    item.inc_ref();
}

nb::object Store::take_item() {
    nb::object item = nb::steal(items_.front());
    items_.pop_front();
    return item;
}

std::size_t Store::size(Content content) const {
    return content == Content::items ? items_.size() : BaseResource::size(content);
}

nb::list Store::list(Content content) const {
    if (content != Content::items) return BaseResource::list(content);
    nb::list list;
    for (PyObject* each : items_) list.append(nb::handle(each));
    return list;
}

int Store::traverse(visitproc visit, void* arg) const {
    for (PyObject* each : items_) Py_VISIT(each);
    return BaseResource::traverse(visit, arg);
}

void Store::release() {
    for (PyObject* each : std::exchange(items_, {})) Py_DECREF(each);
    BaseResource::release();
}

// ---- PriorityStore ------------------------------------------------------------------------------

PriorityStore::PriorityStore(nb::handle env, nb::handle capacity)
    : Store(env, capacity),
      wrapper_(reinterpret_cast<PyTypeObject*>(
          nb::module_::import_("twinloop.engine.queueing").attr("PriorityItem").ptr())) {}

// Wrapped items are compared by their priorities, without a call of their method.
bool PriorityStore::less(PyObject* a, PyObject* b) const {
    if (Py_TYPE(a) == wrapper_ && Py_TYPE(b) == wrapper_) {
        a = PyTuple_GetItem(a, 0);
        b = PyTuple_GetItem(b, 0);
    }
    const int result = PyObject_RichCompareBool(a, b, Py_LT);
    if (result < 0) throw nb::python_error();
    return result == 1;
}

// A comparison may fail, so all come before the first change.
void PriorityStore::add_item(nb::handle item) {
    std::size_t place = items_.size();
    {
        const Locked locked(*this);
        while (place > 0 && less(item.ptr(), items_[(place - 1) / 2])) place = (place - 1) / 2;
    }
    std::size_t hole = items_.size();
    items_.push_back(nullptr);
    for (; hole > place; hole = (hole - 1) / 2) items_[hole] = items_[(hole - 1) / 2];
    items_[place] = item.inc_ref().ptr();
}

// The last item fills the hole at the root: the hole sinks to a leaf along the lesser children,
// and the item rises from there.
nb::object PriorityStore::take_item() {
    const std::size_t size = items_.size() - 1;
    PyObject* last = items_.back();
    path_.assign(1, 0);
    {
        const Locked locked(*this);
        for (std::size_t child = 1; child < size; child = 2 * path_.back() + 1) {
            if (child + 1 < size && !less(items_[child], items_[child + 1])) ++child;
            path_.push_back(child);
        }
        while (path_.size() > 1 && less(last, items_[path_.back()])) path_.pop_back();
    }
    nb::object first = nb::steal(items_.front());
    for (std::size_t i = 1; i < path_.size(); ++i) items_[path_[i - 1]] = items_[path_[i]];
    items_[path_.back()] = last;
    items_.pop_back();
    return first;
}

// ---- FilterStore --------------------------------------------------------------------------------

// All waiting operations are tried, since each accepts other items.
void FilterStore::serve_gets() {
    for (Operation* get = gets.first(); get;) {
        Operation* next = get->after;
        const std::size_t found = find_item(*get);
        if (found < items_.size()) {
            nb::object item = nb::steal(items_[found]);
            items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(found));
            const nb::object held = gets.remove(*get);
            get->complete(std::move(item));
        }
        get = next;
    }
}

std::size_t FilterStore::find_item(const Operation& get) {
    if (!get.argument().is_valid()) return 0;
    const Locked locked(*this);
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const nb::object answer = nb::steal(PyObject_CallOneArg(get.argument().ptr(), items_[i]));
        const int accepted = answer.is_valid() ? PyObject_IsTrue(answer.ptr()) : -1;
        if (accepted < 0) throw nb::python_error();
        if (accepted == 1) return i;
    }
    return items_.size();
}

// ---- Container ----------------------------------------------------------------------------------

Amount amount_from(nb::handle given) {
    const double value = PyFloat_AsDouble(given.ptr());
    if (value == -1.0 && PyErr_Occurred()) throw nb::python_error();
    return {value, PyLong_Check(given.ptr()) != 0};
}

Container::Container(nb::handle env, nb::handle capacity, nb::handle init)
    : BaseResource(env, capacity), level_(amount_from(init)) {
    if (!(level_.value >= 0.0 && level_.value <= limit_))
        refuse("init", ("between 0 and the capacity, " + text(limit_)).c_str(), level_.value);
}

void Container::serve_puts() {
    while (Operation* first = puts.first()) {
        const Amount amount = static_cast<ContainerPut&>(*first).amount;
        if (!(limit_ - level_.value >= amount.value)) return;
        level_ = {level_.value + amount.value, level_.whole && amount.whole};
        const nb::object held = puts.remove(*first);
        first->complete(nb::none());
    }
}

void Container::serve_gets() {
    while (Operation* first = gets.first()) {
        const Amount amount = static_cast<ContainerGet&>(*first).amount;
        if (!(level_.value >= amount.value)) return;
        level_ = {level_.value - amount.value, level_.whole && amount.whole};
        const nb::object held = gets.remove(*first);
        first->complete(nb::none());
    }
}

nb::object Container::level() const {
    return nb::steal(level_.whole ? PyLong_FromDouble(level_.value)
                                  : PyFloat_FromDouble(level_.value));
}

// ---- SequenceView -------------------------------------------------------------------------------

std::size_t SequenceView::size() const {
    return owner_ ? part<BaseResource>(owner_).size(content_) : 0;
}

nb::list SequenceView::list() const {
    return owner_ ? part<BaseResource>(owner_).list(content_) : nb::list();
}

int SequenceView::traverse(visitproc visit, void* arg) const {
    Py_VISIT(owner_);
    return 0;
}

void SequenceView::release() { Py_CLEAR(owner_); }

}  // namespace twinloop::bind
