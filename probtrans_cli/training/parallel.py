"""How the network of a training is spread over its processes.

way         each process has                                    gradients are
Single      everything: there is one process                    its own
Replicas    everything                                          summed by DDP
Shards      a share of weights, gradients and optimizer state   summed by FSDP2, each process its share

An update has rounds: in each, every process goes forward and backward with one microbatch. Gradients are summed over
the processes in the last round alone. Where fewer microbatches are left than processes, the others repeat the first
one of the update and count it 0 times: so all of them take part in everything.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from probtrans_cli.data.ranks import Ranks
from probtrans_cli.models.base import Inputs, Outputs, Wants
from probtrans_cli.models.network import Network
from probtrans_cli.recipe.training import Runtime

_DDP = signature(nn.parallel.DistributedDataParallel).parameters
_BUFFERS = next(name for name in ("forward_sync_buffers", "broadcast_buffers") if name in _DDP)  # new, and old


class Single:
    """A network in one process."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.asked: Callable[[Inputs, Wants], Outputs] = network

    @contextmanager
    def round(self, *, last: bool) -> Iterator[None]:
        """Around forward and backward of a microbatch."""
        del last
        yield

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Within: the network has its whole weights, and may be asked without the other processes."""
        yield

    def add_gradient(self, values: Callable[[], Mapping[str, Tensor]]) -> None:
        """Add the gradient of what is computed of the weights alone."""
        for value in values().values():
            value.backward()  # type: ignore[no-untyped-call]

    def placed(self, value: Tensor, like: Tensor) -> Tensor:
        """A whole tensor as this process is to have it, who has ``like`` so."""
        del like
        return value


class Replicas(Single):
    """A network in each process. DDP sums while it still goes backward; nothing is divided, which the loss does."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        # Which parameters a batch reads depends on the batch. Buffers are the same from the start, and never change.
        unsynchronised: dict[str, Any] = {_BUFFERS: False}
        self.copy = nn.parallel.DistributedDataParallel(network, find_unused_parameters=True, **unsynchronised)
        self.copy.register_comm_hook(None, lambda _, bucket: _sum(bucket))
        self.asked = self.copy

    @contextmanager
    def round(self, *, last: bool) -> Iterator[None]:
        with ExitStack() as stack:
            if not last:
                stack.enter_context(self.copy.no_sync())
            yield


def _sum(bucket: Any) -> torch.futures.Future[Tensor]:
    """Sum a bucket of gradients over all processes."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    assert work is not None, "it is asynchronous"
    summed: torch.futures.Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return summed


class Shards(Single):
    """A share of a network in each process, by rows of its parameters; ``others``: modules that are divided alike."""

    def __init__(self, network: Network, device: torch.device, *others: nn.Module) -> None:
        super().__init__(network)
        # Imported here: it takes a second, and few need it.
        from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415

        # Nothing changes in place what a network returns.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        self.mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        self.modules: list[Any] = [part for one in (network, *others) for part in self._divided(one)]
        self.root: Any = network

    def _divided(self, network: nn.Module) -> list[nn.Module]:
        from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

        parts = [one for name, one in network.named_modules() if _is_layer(name)]
        for part in (*parts, network):
            divided: Any = fully_shard(part, mesh=self.mesh)
            divided.set_gradient_divide_factor(1.0)
            divided.set_force_sum_reduction_for_comms(True)  # gloo knows no other
        return [network, *parts]

    @contextmanager
    def round(self, *, last: bool) -> Iterator[None]:
        self.root.set_requires_gradient_sync(last)
        yield

    @contextmanager
    def whole(self) -> Iterator[None]:
        for module in self.modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            for module in self.modules:
                module.set_reshard_after_forward(module is not self.root, recurse=False)
                module.reshard()

    def add_gradient(self, values: Callable[[], Mapping[str, Tensor]]) -> None:
        found: dict[str, Tensor] = {}
        with self.whole():
            super().add_gradient(values)
            for name, parameter in self.network.named_parameters():
                if parameter.grad is not None:
                    found[name], parameter.grad = parameter.grad, None
        for name, parameter in self.network.named_parameters():
            if name in found:
                mine = self.placed(found[name], parameter)
                parameter.grad = mine if parameter.grad is None else parameter.grad + mine

    def placed(self, value: Tensor, like: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, distribute_tensor  # noqa: PLC0415

        if not isinstance(like, DTensor) or value.shape != like.shape:
            return value
        return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


def _is_layer(name: str) -> bool:
    """Whether a module, by its name, is a layer: what has weights of its own, and is gone through as a whole."""
    parts = name.split(".")
    return len(parts) > 1 and parts[-2] == "layers" and parts[-1].isdigit()


def spread(section: Runtime, network: Network, device: torch.device, ranks: Ranks, *others: nn.Module) -> Single:
    """The network of a training as its processes have it; ``others``: modules with the same parameters."""
    if ranks.world == 1:
        return Single(network)
    return Replicas(network) if section.parallel == "ddp" else Shards(network, device, *others)
