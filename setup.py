"""Which folder holds which import package. What else there is to say stands in pyproject.toml."""

from setuptools import find_packages, setup

ROOMS = {
    "linattn_ref": "linattn_ref",
    "linattn_kernels": "kernels/linattn_kernels",
    "linattn_study": "study/linattn_study",
    "linattn_benchmarks": "benchmarks/linattn_benchmarks",
    "linattn_book": "book/linattn_book",
    "linattn_exercises": "exercises",
}
NOT_SHIPPED = ["builders", "builders.*"]  # they make the pages, from a checkout

inside = {name: find_packages(folder, exclude=NOT_SHIPPED) for name, folder in ROOMS.items()}
packages = [f"{name}.{package}" for name, found in inside.items() for package in found]
setup(packages=[*ROOMS, *packages], package_dir=ROOMS)
