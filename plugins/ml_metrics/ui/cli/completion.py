"""Print what makes a shell complete commands, options, tests and metrics.

examples:
  eval "$(ml-metrics completion bash)"      # in ~/.bashrc
  eval "$(ml-metrics completion zsh)"       # in ~/.zshrc, after compinit
  ml-metrics completion fish | source       # in ~/.config/fish/config.fish
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ml_metrics.core.text import printable
from ml_metrics.ui.cli.arguments import Arguments, Parser, UsageError
from ml_metrics.ui.cli.commands import COMMANDS, GROUPS, parser_of

BASH = """\
_ml_metrics() {
  local IFS=$'\\t'
  local words="${COMP_WORDS[*]:1:COMP_CWORD}"
  IFS=$'\\n'
  COMPREPLY=($(ml-metrics completion --words="$words" 2>/dev/null))
}
complete -o default -o nosort -F _ml_metrics ml-metrics
"""
ZSH = """\
_ml_metrics() {
  local -a found
  found=("${(@f)$(ml-metrics completion --words="${(pj:\\t:)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n $found ]]; then compadd -a found; else _files; fi
}
compdef _ml_metrics ml-metrics
"""
FISH = """\
function __ml_metrics
  ml-metrics completion --words=(string join \\t -- (commandline -opc)[2..] (commandline -ct)) 2>/dev/null
end
complete -c ml-metrics -a '(__ml_metrics)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_arguments(parser: Parser) -> None:
    parser.add_argument("shell", nargs="?", choices=list(SCRIPTS), help="the shell")
    about = "for the scripts: print what completes the last of these words, which tabs separate"
    parser.add_argument("--words", metavar="WORDS", help=about)


def run(arguments: Arguments) -> int:
    if arguments.words is not None:
        print("\n".join(candidates(arguments.words.split("\t"))))
    elif arguments.shell:
        print(SCRIPTS[arguments.shell], end="")
    else:
        raise UsageError(f"name the shell: {', '.join(SCRIPTS)}")
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """The words that begin as the last one does. None for the name of a file, which the shell completes."""
    *before, begun = words
    group = GROUPS.get(before[0]) if before else None
    before = before[1:] if group else before
    if before:
        found: Iterable[str] = _of_command(before[0], before[1:], begun) if before[0] in COMMANDS else ()
    else:
        found = group.commands if group else [*COMMANDS, *GROUPS]
    return [word for word in found if word.startswith(begun) and word == printable(word)]


def _of_command(command: str, before: Sequence[str], begun: str) -> Iterable[str]:
    actions = parser_of(command)._actions  # noqa: SLF001  (argparse has no public list)
    options = {option: action for action in actions for option in action.option_strings}
    if before and (last := options.get(before[-1])) and last.nargs != 0:
        return last.choices or ()
    if begun.startswith("-"):
        return options
    given, is_value = [], False
    for word in before:
        if not is_value and not word.startswith("-"):
            given.append(word)
        is_value = not is_value and word in options and options[word].nargs != 0
    wanted = [action for action in actions if not action.option_strings][len(given) :]
    if not wanted or wanted[0].choices:
        return wanted[0].choices or () if wanted else ()
    from ml_metrics.ui.cli.chosen_warehouse import known_names  # names of commands come without the warehouse

    return known_names(str(wanted[0].metavar), given)
