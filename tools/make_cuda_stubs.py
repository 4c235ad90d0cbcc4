#!/usr/bin/env python3
"""Make empty stand-ins for the CUDA shared libraries that the PyPI x86-64 torch wheel
links to, so that `import torch` works on a CPU-only machine without ~3 GB of nvidia-*
packages.  Every stub function returns 100 (cudaErrorNoDevice) - so torch.cuda sees no device.

usage: make_cuda_stubs.py SITE_PACKAGES     (needs gcc and binutils; run after
       pip install --no-deps torch==2.13.0; not needed with a CPU-only torch wheel)
The stubs are written into <site-packages>/torch/lib, which is on torch's $ORIGIN rpath.
"""
import collections, os, pathlib, re, subprocess, sys, tempfile

if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit(__doc__)
lib = pathlib.Path(sys.argv[1]) / "torch" / "lib"
sos = sorted(p for p in lib.glob("*.so*") if not p.is_symlink())

def out(*a):
    return subprocess.run(a, capture_output=True, text=True, check=True).stdout

present = {p.name for p in sos}
SYS = re.compile(r"^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|ld-linux.*)\.so")
needed, defined, undef = set(), set(), collections.defaultdict(set)
for p in sos:
    for m in re.finditer(r"NEEDED.*\[(.*)\]", out("readelf", "-d", str(p))):
        needed.add(m.group(1))
    for line in out("nm", "-D", "--with-symbol-versions", str(p)).splitlines():
        f = line.split()
        if len(f) >= 2 and f[-2] in "Uwv":
            undef[f[-1]].add(p.name)
        elif len(f) == 3:
            defined.add(f[-1].split("@")[0])
missing = sorted(n for n in needed if n not in present and not SYS.match(n))
print("missing libraries:", missing)

PREFIX = ("cu", "nccl", "pnccl", "nvrtc", "nvshmem", "nvJitLink", "nvml")
by_lib = collections.defaultdict(lambda: collections.defaultdict(set))   # soname -> version -> syms
plain = set()
VERLIB = {}  # version name -> soname, from .gnu.version_r
for p in sos:
    cur = None
    for line in out("readelf", "-V", "-W", str(p)).splitlines():
        m = re.search(r"Version: 1\s+File: (\S+)", line)
        if m: cur = m.group(1)
        m = re.search(r"Name: (\S+)\s+Flags", line)
        if m and cur in missing:
            VERLIB[m.group(1)] = cur
for s in undef:
    name, _, ver = s.partition("@")
    ver = ver.lstrip("@")
    if ver in VERLIB:
        by_lib[VERLIB[ver]][ver].add(name)
    elif not ver and name not in defined and (name.startswith(PREFIX)):
        plain.add(name)

def build(soname, versions, plain_syms):
    with tempfile.TemporaryDirectory() as t:
        c, v = os.path.join(t, "s.c"), os.path.join(t, "s.map")
        names = sorted(set().union(*versions.values()) if versions else set()) + sorted(plain_syms)
        with open(c, "w") as f:
            for n in dict.fromkeys(names):
                if "ErrorString" in n or "ErrorName" in n or n.endswith("GetResultString"):
                    f.write(f'const char *{n}(void) {{ return "stub"; }}\n')
                else:
                    f.write(f"int {n}(void) {{ return 100; }}\n")
        with open(v, "w") as f:
            for ver, syms in sorted(versions.items()):
                f.write(f"{ver} {{ global: {'; '.join(sorted(syms))}; }};\n" if syms else f"{ver} {{ }};\n")
        cmd = ["gcc", "-shared", "-fPIC", "-w", "-O0", "-fno-builtin", f"-Wl,-soname,{soname}", "-o", str(lib / soname), c]
        if versions:
            cmd.insert(-1, f"-Wl,--version-script={v}")
        subprocess.run(cmd, check=True)

# unversioned symbols all go into one stub that libtorch_cuda.so itself links to
linked = set(re.findall(r"NEEDED.*\[(.*)\]", out("readelf", "-d", str(lib / "libtorch_cuda.so"))))
holder = next(m for m in missing if m in linked and m not in VERLIB.values())
for soname in missing:
    versions = by_lib.get(soname, {})
    for ver, l in VERLIB.items():
        if l == soname:
            versions.setdefault(ver, set())
    build(soname, versions, plain if soname == holder else ())
    print(f"  {soname}: {sum(map(len, versions.values()))} versioned symbols {sorted(versions)}"
          + (f" + {len(plain)} plain" if soname == holder else ""))
