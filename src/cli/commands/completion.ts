/** The words that can follow in a command line: commands, flags, their values, files, and names of Services. */
import { argumentOf, type FlagEntry, helpOf, needsValue } from '../../config/flags.ts';
import { COMMANDS, type CommandEntry, flagsOf } from './command-table.ts';

interface Candidate {
  /** The whole word, also when a part of it is typed. */
  readonly word: string;
  /** One line, or nothing. */
  readonly about: string;
}

export interface Completion {
  readonly candidates: readonly Candidate[];
  /** The shell completes the rest of the word itself. */
  readonly also?: 'files' | 'folders';
  /** Names of Services can follow in the place of NAMESPACE/NAME: `before` begins the word, `typed` begins the name. */
  readonly services?: { readonly before: string; readonly typed: string };
}

const HELP: Candidate = { word: 'help', about: 'show the help of a command' };
const HELP_FLAG: Candidate = { word: '--help', about: 'show this help' };

/** `words`: those after the name of the program, up to the cursor. The last one is being typed, and may be empty. */
export function complete(words: readonly string[]): Completion {
  const done = words.slice(0, -1);
  const typed = words.at(-1) ?? '';
  const { candidates, ...rest } = following(done, typed);
  return { candidates: candidates.filter(({ word }) => word.startsWith(typed)), ...rest };
}

function following(done: readonly string[], typed: string): Completion {
  const [first] = done;
  if (first === undefined && !typed.startsWith('-')) return { candidates: [...shownCommands(), HELP] };
  if (first === 'help') return { candidates: done.length === 1 ? shownCommands() : [] };
  const command = commandOf(first);
  if (command === undefined) return { candidates: [] };
  const { given, words, open, isEnded } = read(command, first?.startsWith('-') ? done : done.slice(1));
  if (open !== undefined) return valuesOf(open, '', typed);
  const [, name, value] = /^--([\w-]+)=(.*)$/.exec(typed) ?? [];
  if (!isEnded && name !== undefined) {
    const flag = flagsOf(command).find((one) => one.name === name);
    return flag === undefined ? { candidates: [] } : valuesOf(flag, `--${name}=`, value ?? '');
  }
  if (!isEnded && typed.startsWith('-')) return { candidates: flagCandidates(command, given) };
  const ofWord = wordsOf(command, words.length, typed);
  if (ofWord !== undefined || isEnded) return ofWord ?? { candidates: [] };
  return { candidates: typed === '' ? flagCandidates(command, given) : [] };
}

/** The command that a line begins with; the default one for a line that begins with a flag. */
function commandOf(first: string | undefined): CommandEntry | undefined {
  if (first === undefined || first.startsWith('-')) return COMMANDS.find(({ isDefault }) => isDefault);
  return COMMANDS.find(({ name }) => name === first);
}

const shownCommands = (): Candidate[] =>
  COMMANDS.filter(({ isHidden }) => !isHidden).map(({ name, summary }) => ({ word: name, about: summary }));

interface ReadLine {
  /** Names of the flags so far. */
  readonly given: ReadonlySet<string>;
  readonly words: readonly string[];
  /** The flag whose value comes next. */
  readonly open: FlagEntry | undefined;
  /** The line has a `--`, after which no flags follow. */
  readonly isEnded: boolean;
}

function read(command: CommandEntry, done: readonly string[]): ReadLine {
  const flags = flagsOf(command);
  const given = new Set<string>();
  const words: string[] = [];
  let open: FlagEntry | undefined;
  let isEnded = false;
  for (const word of done) {
    const name = word.split('=', 1)[0] ?? '';
    if (open !== undefined) open = undefined;
    else if (word === '--') isEnded = true;
    else if (isEnded || !word.startsWith('-') || word === '-') words.push(word);
    else {
      const flag = flags.find(({ usage }) => usage.split(/[ ,]+/).includes(name));
      if (flag !== undefined) given.add(flag.name);
      if (flag !== undefined && name === word && needsValue(flag)) open = flag;
    }
  }
  return { given, words, open, isEnded };
}

function flagCandidates(command: CommandEntry, given: ReadonlySet<string>): Candidate[] {
  const open = flagsOf(command).filter(({ name, isHidden, isJoined }) => !isHidden && (isJoined || !given.has(name)));
  return [...open.map((flag) => ({ word: `--${flag.name}`, about: helpOf(flag) })), HELP_FLAG];
}

/** `before`: the part of the word before the value; `typed`: the typed part of the value. */
function valuesOf(flag: FlagEntry, before: string, typed: string): Completion {
  const argument = argumentOf(flag);
  const of = (values: readonly string[]) => values.map((value) => ({ word: `${before}${value}`, about: '' }));
  if (flag.values !== undefined) return { candidates: of(flag.values) };
  if (argument === 'bool') return { candidates: of(['true', 'false']) };
  if (argument === 'file' || argument === 'path') return { candidates: [], also: 'files' };
  if (argument === 'folder') return { candidates: [], also: 'folders' };
  // Nothing fits: the shell must not offer files.
  return { candidates: typed === '' && flag.initial !== undefined ? of([flag.initial]) : [] };
}

const SENDERS: readonly Candidate[] = [
  { word: 'pod/', about: 'a Pod: pod/NAMESPACE/NAME' },
  { word: 'node', about: 'this node' },
  { word: 'outside', about: 'a client outside the cluster' },
];
const RECEIVERS: readonly Candidate[] = [
  { word: 'svc/', about: 'a Service: svc/NAMESPACE/NAME[:PORT]' },
  { word: 'nodeport:', about: 'a node port: nodeport:PORT' },
];

/** The candidates for a word of a command after `count` others; undefined when the command takes no more. */
function wordsOf({ name, words }: CommandEntry, count: number, typed: string): Completion | undefined {
  const place = words[count];
  if (place === '<FROM>') return { candidates: SENDERS };
  if (place === '<TO>') {
    const isService = typed.startsWith('svc/');
    return { candidates: RECEIVERS, ...(isService && { services: { before: 'svc/', typed: typed.slice(4) } }) };
  }
  if (place === '[service]') return { candidates: [], services: { before: '', typed } };
  if (place === '<file>') return { candidates: [], also: 'files' };
  if (place === '<shell>') return { candidates: SHELLS.map((word) => ({ word, about: `completion of ${word}` })) };
  return name === 'complete' ? { candidates: [] } : undefined;
}

/** The output for the scripts of the shells: `WORD<tab>ABOUT` lines, and `:files` or `:folders`. */
export function completionText({ candidates, also }: Completion): string {
  const lines = candidates.map(({ word, about }) => `${word}\t${about}`);
  return [...lines, ...(also === undefined ? [] : [`:${also}`])].join('\n');
}

/** Each script calls `slicewire complete`, and offers the words that it prints. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

/** bash replaces only what follows the last = or : of a word (COMP_WORDBREAKS), so the part before is cut off. */
const BASH = `# Completion of slicewire for bash. In ~/.bashrc: source <(slicewire completion bash)
_slicewire() {
  local program=\${COMP_WORDS[0]/#\\~/$HOME} line=\${COMP_LINE:0:COMP_POINT} breaks= cut= also= before= word about
  local -a typed=()
  read -ra typed <<<"$line"
  while [[ \${#typed[@]} -gt 0 && \${typed[0]} != "\${COMP_WORDS[0]}" ]]; do typed=("\${typed[@]:1}"); done
  [[ $line == *[[:space:]] ]] && typed+=('')
  typed=("\${typed[@]:1}")
  local current=
  [[ \${#typed[@]} -gt 0 ]] && current=\${typed[\${#typed[@]}-1]}
  for word in = :; do [[ $COMP_WORDBREAKS == *"$word"* ]] && breaks+=$word; done
  [[ -n $breaks ]] && cut=\${current%"\${current##*[$breaks]}"}
  COMPREPLY=()
  while IFS=$'\\t' read -r word about; do
    case $word in
      :*) also=$word ;;
      *) COMPREPLY+=("\${word#"$cut"}") ;;
    esac
  done < <("$program" complete -- "\${typed[@]}" 2>/dev/null)
  if [[ -n $also ]]; then
    [[ $current == --*=* ]] && before=\${current%%=*}=
    [[ $also == :folders ]] && word=-d || word=-f
    while read -r about; do about=$before$about && COMPREPLY+=("\${about#"$cut"}"); done < <(compgen "$word" -- "\${current#"$before"}")
    compopt -o filenames
  elif [[ \${#COMPREPLY[@]} == 1 && \${COMPREPLY[0]} == *[/:=] ]]; then
    compopt -o nospace
  fi
}
complete -F _slicewire slicewire
`;

const ZSH = `#compdef slicewire
# Completion of slicewire for zsh. In ~/.zshrc, after compinit: source <(slicewire completion zsh)
_slicewire() {
  local word about also i
  local -a typed closed open
  for ((i = 2; i < CURRENT; i++)); do typed+=("\${(Q)words[i]}"); done
  typed+=("\${(Q)PREFIX}")
  while IFS=$'\\t' read -r word about; do
    case $word in
      :*) also=$word ;;
      *[/:=]) open+=("\${word//:/\\\\:}:$about") ;;
      *) closed+=("\${word//:/\\\\:}:$about") ;;
    esac
  done < <("\${(Q)words[1]}" complete -- "\${typed[@]}" 2>/dev/null)
  if [[ -n $also ]]; then
    [[ $PREFIX == --*=* ]] && compset -P '*='
    if [[ $also == :folders ]]; then _files -/; else _files; fi
    return
  fi
  local found=1
  (( $#closed )) && _describe -t words slicewire closed && found=0
  (( $#open )) && _describe -t words slicewire open -S '' && found=0
  return found
}
if [[ $funcstack[1] == _slicewire ]]; then _slicewire "$@"; else compdef _slicewire slicewire; fi
`;

const FISH = `# Completion of slicewire for fish: slicewire completion fish > ~/.config/fish/completions/slicewire.fish
function __slicewire_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l program $typed[1]
    set -e typed[1]
    for line in ($program complete -- $typed "$current" 2>/dev/null)
        switch $line
            case ':files' ':folders'
                set -l before (string match -r -- '^--[^=]*=' "$current")
                set -l value (string replace -r -- '^--[^=]*=' '' "$current")
                set -l paths
                if test $line = ':folders'
                    set paths (__fish_complete_directories "$value" '')
                else
                    set paths (__fish_complete_path "$value" '')
                end
                for path in $paths
                    printf '%s%s\\n' "$before" $path
                end
            case '*'
                printf '%s\\n' $line
        end
    end
end
complete -c slicewire -f -a '(__slicewire_complete)'
`;

export const SCRIPTS: Readonly<Record<Shell, string>> = { bash: BASH, zsh: ZSH, fish: FISH };
