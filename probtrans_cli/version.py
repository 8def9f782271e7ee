"""The version, which checkpoints and manifests name."""

__version__ = "0.1.0"
