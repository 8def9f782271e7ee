"""Folders that several processes write, or that were copied: who may write now, and which checkpoint is meant."""
