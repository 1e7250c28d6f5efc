"""A source in Python: a closed system of clients, each with one task at a time."""

from twinloop.workload import Source


class Clients(Source):
    """A client submits the next task of the workload some time after its last one has ended."""

    def __init__(self, clients: int = 2, think_time: float = 0.0) -> None:
        self.clients, self.think_time = clients, think_time

    def start(self, workload, rng):
        state = Clients(self.clients, self.think_time)
        state.tasks = list(workload.ids)
        state.due = [0.0] * self.clients  # the next submissions of clients without a task
        state.answered = False
        return state

    def next(self, now, finished):
        if self.answered and not finished:  # the last answer has been submitted
            self.due.pop(0), self.tasks.pop(0)
        self.due = sorted(self.due + [end + self.think_time for _, end, _ in finished])
        self.answered = bool(self.due and self.tasks)
        return (self.due[0], self.tasks[:1]) if self.answered else None
