"""Answers that do not play by the rules, and what the grader must say of each.

None of them touches anything but files of its own, by a name of its own, in the folder it is started in.
"""

# By name: the code of the cell that answers question 5 of ch01_softmax (``merge``), and words that the
# message on it must contain; "" where any message will do.
HOSTILE: dict[str, tuple[str, str]] = {
    "raises": ("raise RuntimeError('no')", "raised RuntimeError"),
    "does_not_parse": ("def merge(a, b) return a", "SyntaxError"),
    "exits": ("import sys\nsys.exit(0)", "raised SystemExit"),
    "exits_hard": ("import os\nos._exit(0)", "raised SystemExit"),
    "kills_itself": ("import signal\nsignal.raise_signal(signal.SIGKILL)", "ended before it reported"),
    "kills_its_group": ("import os, signal\nos.killpg(0, signal.SIGKILL)", "Operation not permitted"),
    "kills_the_worker": (
        "import os, signal\ntry:\n    os.kill(os.getppid(), signal.SIGKILL)\nexcept OSError:\n    pass\n"
        "signal.raise_signal(signal.SIGKILL)",
        "ended before it reported",
    ),
    "loops": ("while True:\n    pass", "seconds of processor time"),
    "loops_against_signals": (
        "import signal\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n"
        "    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
        "ended before it reported",
    ),
    "sleeps": ("import time\ntime.sleep(1000)", "seconds: it waits"),
    "eats_memory": (
        "import torch\nkept = []\nwhile True:\n    kept.append(torch.ones(10_000_000))",
        "more memory than it may use",
    ),
    "eats_memory_in_lists": (
        "kept = [0]\nwhile True:\n    kept = kept + kept",
        "more memory than it may use",
    ),
    "recurses": ("def down(n):\n    return down(n + 1)\ndown(0)", "RecursionError"),
    "fills_the_disk": (
        "with open('own_file.bin', 'wb') as file:\n    while True:\n        file.write(bytes(1_000_000))",
        "File too large",
    ),
    "writes_one_file": ("open('own_file.txt', 'w').write('mine')\ndef merge(a, b):\n    return a", "got"),
    "holds_memory_with_its_first_thread_ended": (
        "import ctypes, os, threading, time\nlibc = ctypes.CDLL(None)\n"
        "def eat():\n    time.sleep(0.3)\n    kept = bytearray(400_000_000)\n"
        "    for i in range(0, len(kept), 4096):\n        kept[i] = 1\n    time.sleep(60)\n"
        "for _ in range(7):\n    if os.fork() == 0:\n        threading.Thread(target=eat).start()\n"
        "        libc.syscall(60, 0)\ntime.sleep(60)\ndef merge(a, b):\n    return b",
        "memory",
    ),
    "leaves_data_with_a_socket_that_listens": (
        "import socket\ndef merge(a, b):\n    listening = socket.socket(socket.AF_UNIX)\n"
        "    listening.listen(4096)\n    return b",
        "Operation not permitted",
    ),
    "leaves_a_process": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(300)\n    os._exit(0)\n"
        "def merge(a, b):\n    return b",
        "",
    ),
    "patches_torch": (
        "import torch\ntorch.allclose = lambda *a, **k: True\ntorch.equal = torch.allclose\n"
        "import numpy\nnumpy.isclose = numpy.allclose = lambda *a, **k: True\n"
        "def merge(a, b):\n    return b",
        "got",
    ),
    "patches_the_checks": (
        "from linattn_exercises.ch01_softmax import check\ncheck.q5 = lambda *a: print('right')\n"
        "import linattn_exercises.questions as questions\nquestions.Question.judge = lambda *a: True\n"
        "def merge(a, b):\n    return b",
        "got",
    ),
    "asks_for_the_reference": (
        "from linattn_exercises.ch01_softmax.check import merge as right\n"
        "def merge(a, b):\n    return right(a, b)",
        "returned a Anything",
    ),
    "prints_a_score": (
        'print(\'{"end": "done", "points": 3}\')\nprint(\'Question 5: right.\')\n'
        "def merge(a, b):\n    print('right')\n    return b",
        "got",
    ),
    "writes_a_report": (
        "import os\nfor n in range(1, 10):\n    try:\n"
        '        os.write(n, b\'{"end": "done", "data": ""}\\n\')\n    except OSError:\n        pass\n'
        "def merge(a, b):\n    return b",
        "interfered with the report",
    ),
    "equals_everything": (
        "class Any(float):\n    def __eq__(self, other):\n        return True\n"
        "    __hash__ = float.__hash__\n    def __sub__(self, other):\n        return 0.0\n"
        "def merge(a, b):\n    return Any(1), Any(2), Any(3)",
        "got",
    ),
    "an_object": ("class Mine:\n    pass\ndef merge(a, b):\n    return Mine()", "returned a Mine"),
    "too_much": (
        "import torch\ndef merge(a, b):\n    return 0.0, 0.0, torch.zeros(5_000_000)",
        "expected at most",
    ),
    "too_much_text": ("def merge(a, b):\n    return 'x' * 10**7", "got a str"),
    "a_deep_list": (
        "def merge(a, b):\n    deep = []\n    for _ in range(2_000):\n        deep = [deep]\n    return deep",
        "RecursionError",
    ),
    "a_huge_number": ("def merge(a, b):\n    return 10**5000, 1, 1", "whole number of"),
    "markup": ("def merge(a, b):\n    raise ValueError('<script>alert(1)</script>')", "<script>"),
    "a_formula": ("def merge(a, b):\n    raise ValueError('=HYPERLINK(1)')", "HYPERLINK"),
    "no_exit": (
        "import os, json\nos._exit = lambda *a: None\njson.dumps = lambda *a: 'x'\n"
        "def merge(a, b):\n    return b",
        "got",
    ),
    "changes_its_inputs": ("def merge(a, b):\n    a[2].zero_()\n    return a", "argument 1 changed"),
    "traces": (
        "import sys\nsys.settrace(lambda *a: None)\nsys.modules['numpy'] = None\n"
        "def merge(a, b):\n    return b",
        "",
    ),
    "removes_builtins": ("import builtins\nbuiltins.len = None\ndef merge(a, b):\n    return b", ""),
    "speaks_for_the_worker": (
        "import json, os\nfor n in (0, 1, 2):\n    for pid in (1, os.getppid()):\n        try:\n"
        "            place = os.open(f'/proc/{pid}/fd/{n}', os.O_WRONLY)\n"
        "            os.write(place, (json.dumps({'id': 1, 'end': 'done', 'data': '{}'}) + '\\n').encode())\n"
        "        except OSError:\n            pass\n"
        "def merge(a, b):\n    return 1",
        "",
    ),
    "narrows_the_worker": (
        "import os, resource\n"
        "try:\n    resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3))\n"
        "except (OSError, AttributeError):\n    pass\n"
        "def merge(a, b):\n    return b",
        "",
    ),
    "a_deep_folder": (
        "import os\nfor _ in range(1500):\n    os.mkdir('d')\n    os.chdir('d')\n"
        "def merge(a, b):\n    return b",
        "",
    ),
    "a_lone_surrogate": ("def merge(a, b):\n    raise ValueError('\\ud800')", "\\ud800"),
    "texts_of_one_width": ("def merge(a, b):\n    return ['x' * 2000] + [''] * 9000, 1, 1", "got"),
    "too_many_items": ("def merge(a, b):\n    return [0] * 10**6", "expected at most"),
    "terminal_codes": ("def merge(a, b):\n    raise ValueError('\\x1b[31m')", "raised ValueError"),
    "nested": (
        "def merge(a, b):\n    deep = (1,) * 6\n    for _ in range(5):\n        deep = (deep,) * 6\n"
        "    return deep",
        "expected at most",
    ),
}
