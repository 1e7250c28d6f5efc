from .broker_metrics import ClientMetrics, client_metrics, scheduling_error
from .catalogue import FIGURES, Figure
from .client_states import (
    NODE_STATES,
    TASK_STATES,
    node_states_of_client,
    task_states_of_client,
)
from .cloud_meters import energy_by_meter, meter_readings
from .cloud_service_levels import service_levels
from .confidence import (
    BatchMeans,
    ConfidenceInterval,
    batch_means,
    confidence_interval,
)
from .distribution import Distribution
from .energy_and_carbon import carbon, energy
from .instance_energy import energy_of_instances
from .instance_utilisation import use_of_instances
from .lateness import Lateness, per_user
from .run_cost import Cost, cost
from .run_difference import Difference, difference
from .series import (
    busy_cores,
    busy_nodes,
    completions,
    cores_in_use,
    queue_length,
    submissions,
    terminations,
    throughput,
)
from .tasks import per_task
from .trace_figures import Figures, figures

__all__ = [
    "FIGURES",
    "NODE_STATES",
    "TASK_STATES",
    "BatchMeans",
    "ClientMetrics",
    "ConfidenceInterval",
    "Cost",
    "Difference",
    "Distribution",
    "Figure",
    "Figures",
    "Lateness",
    "batch_means",
    "busy_cores",
    "busy_nodes",
    "carbon",
    "client_metrics",
    "completions",
    "confidence_interval",
    "cores_in_use",
    "cost",
    "difference",
    "energy",
    "energy_by_meter",
    "energy_of_instances",
    "figures",
    "meter_readings",
    "node_states_of_client",
    "per_task",
    "per_user",
    "queue_length",
    "scheduling_error",
    "service_levels",
    "submissions",
    "task_states_of_client",
    "terminations",
    "throughput",
    "use_of_instances",
]
