/** Completion of shells: each script asks `slicewire complete`, and offers what it answers. */

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

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
