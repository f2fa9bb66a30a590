"""Is there a Node.js that the tests can use?"""

import shutil
import subprocess

import wire

EXAMPLES = wire.ROOT / "examples"
NODE = "/usr/bin/node"


def why_not():
    """Why there is no Node.js to test with, or None."""
    if shutil.which(NODE) is None:
        return "there is no /usr/bin/node (Debian's package nodejs)"
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < 18:
        return f"Node.js {version.strip()} is older than 18"
    return None


WHY_NOT = why_not()
