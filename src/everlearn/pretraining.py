"""A network pre-trained on other objects than mini50's, as the paper's were on ImageNet; trained once and cached."""

from everlearn.batch import Batch
from everlearn.data.folder import data_folder
from everlearn.data.mini50 import pretraining
from everlearn.data.render import VERSION
from everlearn.models import Network, small
from everlearn.presets import build
from everlearn.state import load_state, save_state

SHAPE = (3, 32, 32)
KNOBS = {
    "training.minibatch": 64,
    "training.first.epochs": 12,
    "training.first.eta": 0.03,
    "training.first.schedule": ((0.0, 1.0), (1.0, 0.05)),
}


def pretrained(classes: int, *, seed: int = 0) -> Network:
    """`small` for mini50: its trunk has learnt 100 other synthetic objects, its output layer nothing yet."""
    network = small(classes, SHAPE, normalise=True, seed=seed)
    path = data_folder() / f"small-mini50-v{VERSION}.safetensors"
    if not path.exists():
        save_state(path, pretrain())
    network.trunk.load_state_dict(load_state(path)["trunk"])
    return network


def pretrain() -> dict[str, object]:
    """Learn the pre-training objects as one batch; what is kept is the trunk, and how well it did."""
    source = pretraining()
    learner = build("naive", small(len(source.classes), SHAPE, normalise=True), knobs=KNOBS)
    learner.learn(Batch(source.train.x, source.train.y))
    accuracy = learner.evaluate(Batch(source.test.x, source.test.y)).seen
    return {"trunk": dict(learner.network.trunk.state_dict()), "accuracy": accuracy, "knobs": str(KNOBS)}
