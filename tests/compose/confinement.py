"""What a container may do that none of ours has to."""

from docker.models.containers import Container


def unconfined(container: Container) -> list[str]:
    """What of it is not as narrow as it should be; nothing, if all is well."""
    host, config = container.attrs["HostConfig"], container.attrs["Config"]
    bound = [binding for given in container.ports.values() for binding in given or ()]
    wrong = {
        "writes to its root file system": not host["ReadonlyRootfs"],
        "has capabilities": host["CapDrop"] != ["ALL"] or bool(host["CapAdd"]),
        "is privileged": host["Privileged"],
        "may gain privileges": "no-new-privileges:true" not in (host["SecurityOpt"] or ()),
        "has memory without limit": not host["Memory"] > 0,
        "has processes without limit": not (host["PidsLimit"] or 0) > 0,
        "runs as root": config["User"].split(":")[0] in ("", "0", "root"),
        "listens beyond this machine": any(binding["HostIp"] != "127.0.0.1" for binding in bound),
    }
    return [what for what, is_so in wrong.items() if is_so]
