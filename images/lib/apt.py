"""Debian packages of a suite, by a private apt state: the machine's own sources, packages and keys stay as they are.

The mirror is the machine's own (`apt-get indextargets`), whatever its suite; signatures are checked by apt against
debian-archive-keyring. Downloaded packages stay in the cache and are checked by apt again whenever they are used.
"""
import contextlib
import hashlib
import os
import pathlib
import subprocess
import tarfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITES = ("bookworm", "trixie")
ARCHITECTURE = "amd64"


class ImageError(Exception):
    """What went wrong and what to do about it, for the person at the terminal."""


def run(command, **options):
    """Runs a program, returns its standard output; ImageError with its words if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    except FileNotFoundError as error:
        raise ImageError(f"{command[0]} is not installed; see packages-images.txt") from error
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command[:3])} ...: exit {done.returncode}\n{(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def machine_mirrors():
    """(main, security) URIs of the Debian archive that this machine's apt is configured with; security may be None."""
    found = {}
    lines = run(["apt-get", "indextargets", "--format", "$(LABEL)|$(COMPONENT)|$(REPO_URI)", "Created-By: Packages"])
    for line in lines.splitlines():
        label, component, uri = line.split("|", 2)
        if component == "main":
            found.setdefault(label, uri)
    if "Debian" not in found:
        raise ImageError("apt has no index of a Debian archive here; run apt-get update (as root), or add a Debian source")
    return found["Debian"], found.get("Debian-Security")


class Apt:
    """apt for one suite, with all its state under `directory`."""

    def __init__(self, directory, suite):
        self.directory = pathlib.Path(directory).resolve()
        self.suite = suite
        self.lists = self.directory / "lists"
        self.archives = self.directory / "archives"
        self.config = self.directory / "apt.conf"

    def _environment(self):
        return dict(os.environ, APT_CONFIG=str(self.config), LC_ALL="C", DEBIAN_FRONTEND="noninteractive")

    def prepare(self, update):
        """Makes the state, and fetches package lists if there are none or `update` asks for it."""
        have = any(self.lists.glob("*_Packages*")) and self.config.exists()
        for path in (self.lists / "partial", self.archives / "partial", self.directory / "parts"):
            path.mkdir(parents=True, exist_ok=True)
        (self.directory / "status").touch()
        if have and not update:
            return
        if not os.path.exists(KEYRING):
            raise ImageError(f"{KEYRING} is missing; install debian-archive-keyring")
        main, security = machine_mirrors()
        option = f"[arch={ARCHITECTURE} signed-by={KEYRING}]"
        sources = [f"deb {option} {main} {self.suite} main", f"deb {option} {main} {self.suite}-updates main"]
        if security is not None:
            sources.append(f"deb {option} {security} {self.suite}-security main")
        (self.directory / "sources.list").write_text("\n".join(sources) + "\n", encoding="utf-8")
        settings = {
            "Dir::State": self.directory, "Dir::State::lists": self.lists, "Dir::State::status": self.directory / "status",
            "Dir::State::extended_states": self.directory / "extended_states",
            "Dir::Cache": self.directory, "Dir::Cache::archives": self.archives,
            "Dir::Etc::sourcelist": self.directory / "sources.list", "Dir::Etc::sourceparts": self.directory / "parts",
            "Dir::Etc::preferences": self.directory / "none", "Dir::Etc::preferencesparts": self.directory / "parts",
            "APT::Architecture": ARCHITECTURE, "APT::Architectures": ARCHITECTURE, "APT::Install-Recommends": "false",
            "APT::Sandbox::User": "root", "APT::Get::AllowUnauthenticated": "false", "Acquire::Languages": "none",
            "Acquire::AllowInsecureRepositories": "false", "APT::Update::Error-Mode": "any", "Debug::NoLocking": "true",
        }
        self.config.write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()), encoding="utf-8")
        try:
            run(["apt-get", "-qq", "update"], env=self._environment())
        except ImageError as error:
            self.config.unlink()  # what was fetched is no whole state
            raise ImageError(f"the package lists of {self.suite} cannot be had from this machine's Debian mirror, "
                             f"or their signatures do not hold:\n{error}") from error

    def state(self):
        """Names the package lists: the digest of every signed release file."""
        digest = hashlib.sha256()
        for path in sorted(self.lists.glob("*Release")):
            digest.update(f"{path.name} {sha256(path)}\n".encode())
        return digest.hexdigest()

    def depends(self, package):
        """Direct dependencies of a package's candidate."""
        text = run(["apt-cache", "depends", package], env=self._environment())
        return [line.split(":", 1)[1].strip() for line in text.splitlines() if line.strip().startswith("Depends:")]

    def closure(self, packages, without=()):
        """Downloads packages and all they depend on; returns [Deb], by name.

        Packages of `without` are taken for installed, so that neither they nor what only they need are in the answer.
        """
        status = self.directory / "status"
        status.write_text("".join(f"Package: {name}\nStatus: install ok installed\nArchitecture: {ARCHITECTURE}\n"
                                  f"Version: 9999\nMaintainer: nobody\nDescription: left out\n\n" for name in without),
                          encoding="utf-8")
        try:
            lines = run(["apt-get", "install", "-y", "--simulate", *packages], env=self._environment())
        finally:
            status.write_text("", encoding="utf-8")
        return self.download(sorted({line.split()[1] for line in lines.splitlines() if line.startswith("Inst ")}))

    def download(self, names):
        """Fetches exactly these packages into the cache; returns [Deb], by name."""
        env = self._environment()
        lines = run(["apt-get", "download", "--print-uris", *names], env=env)
        debs, missing = [], []
        for line in lines.splitlines():
            if not line.startswith("'"):
                continue
            uri, file, size, digest = line.split()
            name, version, _ = file.rsplit(".deb", 1)[0].split("_")
            deb = Deb(name, version.replace("%3a", ":"), self.archives / file, uri.strip("'"), int(size), digest)
            debs.append(deb)
            if not deb.intact():
                missing.append(name)
        if missing:
            run(["apt-get", "-qq", "download", *missing], env=env, cwd=self.archives)
        for deb in debs:
            if not deb.intact():
                raise ImageError(f"{deb.path.name} is not what the archive's index says")
        if len(debs) != len(names):
            raise ImageError(f"{self.suite} has not all of: {' '.join(names)}")
        return sorted(debs, key=lambda deb: deb.name)


class Deb:
    """One package file in the cache. `digest` is what the signed index says, "SHA256:..." or another of apt's kinds."""

    def __init__(self, name, version, path, uri, size, digest):
        self.name, self.version, self.path, self.uri, self.size, self.digest = name, version, path, uri, size, digest
        self.sha256 = None

    def intact(self):
        if not self.path.exists() or self.path.stat().st_size != self.size:
            return False
        self.sha256 = sha256(self.path)
        kind, value = self.digest.split(":", 1)
        if kind == "SHA256":
            return value == self.sha256
        with open(self.path, "rb") as file:
            return hashlib.file_digest(file, kind.lower().replace("sum", "")).hexdigest() == value

    def entry(self):
        return {"name": self.name, "version": self.version, "file": self.path.name, "sha256": self.sha256}

    @contextlib.contextmanager
    def files(self):
        """The package's files as a tar stream, to be read once from start to end; no script of the package runs."""
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(self.path)], stdout=subprocess.PIPE) as unpacker:
            with tarfile.open(fileobj=unpacker.stdout, mode="r|") as tar:
                yield tar
            unpacker.stdout.read()
        if unpacker.returncode != 0:
            raise ImageError(f"{self.path} is damaged; remove it and try again")
