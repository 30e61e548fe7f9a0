"""The driver of Fsas' Fabric Manager."""

from contract.fabric.suite import LoginContract


class TestFabricManager(LoginContract):
    name = "fm"
