"""Read the text that every Python installation has: its standard library, as code and as prose.

Prose is the docstrings of its modules, classes and functions. Both differ between Python versions.
"""

import ast
import sysconfig
from pathlib import Path

from linattn_ref.training.tasks.documents import Documents, is_library_source, read_folder

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def read_library_code() -> Documents:
    """Return the library's source files without tests: relative path -> bytes."""
    return read_folder(Path(sysconfig.get_path("stdlib")), "*.py", is_library_source)


def read_library_prose() -> Documents:
    """Return the docstrings of each source file, in the order of the file: relative path -> bytes."""
    documents = Documents()
    for name, source in read_library_code().items():
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError):  # templates, and bytes that are no text
            continue
        texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, DOCUMENTED))
        documents[name] = "".join(f"{text}\n\n" for text in texts if text).encode("utf-8", "replace")
    return documents
