package spec

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// printedValues are scripts that print a value after a line, each in its own way, and what they
// print around it.
var printedValues = map[string][2]string{
	`printf %s ${case.v}`:                                     {},
	`printf %s "${case.v}"`:                                   {},
	`printf %s '${case.v}'`:                                   {},
	`printf %s a${case.v}b`:                                   {"a", "b"},
	`printf %s "a'${case.v}'b"`:                               {"a'", "'b"},
	`printf %s 'a"${case.v}"b'`:                               {`a"`, `"b`},
	`printf %s "$(printf '%s.' "${case.v}")"`:                 {"", "."},
	`X=${case.v}; export Y="$X"; printf %s "$Y"`:              {},
	`for x in ${case.v}; do printf %s "$x"; done`:             {},
	`f() { printf %s "$1"; }; f ${case.v}`:                    {},
	`if true; then { (printf %s ${case.v}); }; fi`:            {},
	`case ${case.v} in ${case.v}) printf %s ${case.v};; esac`: {},
	"printf %s \\\n  ${case.v} # it's a comment":              {},
	`printf %s ${case.v} | cat`:                               {},
}

// shellOf returns the script of a case with one value, and the variables that it needs.
func shellOf(t *testing.T, script, value string) (text string, env []string) {
	t.Helper()
	of := Case{"v": value}
	text, variables, wrong, why := readScript(script).filled(script, of)
	if wrong != "" {
		t.Fatalf("%s with %q: %s", script, value, why)
	}
	for name, v := range variables {
		env = append(env, name+"="+v)
	}
	return text, env
}

// FuzzValuesInShells: what a real shell prints is the value, whatever is in it.
func FuzzValuesInShells(f *testing.F) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		f.Fatal(err)
	}
	for _, value := range []string{
		"300", "", "a; b", "a\nb\n", "\n", `it's`, `"x"`, "$HOME", "$(echo x)", "`echo x`", `a\`, `\\n`, `\"`, "*", "~", "-n", "a b  c", "\t", "größe ☃ 日本", "${BEE_VALUE_1}", "' ; echo x '", "#x", "!x", "%s", "{a,b}", "=", "\r\n",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.Contains(value, "\x00") || strings.Contains(value, "${case.") || len(value) > 1<<10 || strings.HasPrefix(value, "-") && !plainWord.MatchString(value) {
			t.Skip() // no Beefile has it, or it is refused
		}
		var all strings.Builder // one process for all
		var env, want []string
		for script, around := range printedValues {
			text, variables := shellOf(t, script, value)
			all.WriteString(text + "\nprintf '\\000'\n")
			env, want = variables, append(want, around[0]+value+around[1])
		}
		c := exec.CommandContext(t.Context(), sh, "-c", all.String())
		c.Env = append(env, "PATH=/usr/bin:/bin")
		out, err := c.CombinedOutput()
		printed := strings.Split(string(out), "\x00")
		if err != nil || len(printed) != len(want)+1 {
			t.Fatalf("%v: %s prints %q", err, all.String(), out)
		}
		for i := range want {
			if printed[i] != want[i] {
				t.Errorf("%s\nprints %q, want %q", all.String(), printed[i], want[i])
			}
		}
	})
}

// TestValuesThatMayBecomeCommands are refused but for plain words, wherever a shell or another
// program may take them for more than a word.
func TestValuesThatMayBecomeCommands(t *testing.T) {
	for _, script := range []string{
		"sh -c './m ${case.v}'", `sh -c "./m ${case.v}"`, "sh -c ${case.v}", "bash -lc 'x ${case.v}'", "/bin/sh -ec 'x ${case.v}'", "env A=1 sh -c '${case.v}'", "mpirun -n 2 sh -c '${case.v}'",
		"eval ./m ${case.v}", "ssh host ./m ${case.v}", "/.bee/rsh host ./m ${case.v}", "trap 'x ${case.v}' EXIT", "su -c 'x ${case.v}'", "python3 -c 'print(\"${case.v}\")'", "perl5.36 -e '${case.v}'", "awk 'BEGIN {print \"${case.v}\"}'", "sed s/X/${case.v}/ in",
		"echo ./m ${case.v} | sh", "echo ${case.v} | python3 -", "sh <<E\n./m ${case.v}\nE", "cat <<E\n${case.v}\nE", "cat <<'E'\n${case.v}\nE", "echo $((${case.v} + 1))", "[[ ${case.v} -eq 0 ]]", "echo `echo ${case.v}`", "echo ${X:-${case.v}}",
		"echo $'${case.v}'", `echo $"${case.v}"`, "a[${case.v}]=1", "let ${case.v}", "declare ${case.v}=1", "unset ${case.v}", "test -v ${case.v}", "printf -v ${case.v} x", "$RUN ${case.v}", "${case.s} -c ${case.v}", "timeout 5 ${case.s} -c ${case.v}", "\\sh -c ${case.v}", "s'h' -c ${case.v}",
		"read -r ${case.v}", "command -p read ${case.v}", "while read ${case.v}; do :; done", "mapfile ${case.v}", "readarray -t ${case.v}", "getopts ab ${case.v}", "wait -p ${case.v}", "builtin printf -v ${case.v} x", "\\declare ${case.v}=1", "compgen -W ${case.v}",
		"x # ${case.v}", "echo \\${case.v}", "sh ${case.v}", "for ((i=${case.v};;)); do :; done", "bee_mark_0_ ${case.v}", strings.Repeat("x\n", longestScript/2) + "./m ${case.v}",
	} {
		s := readScript(script)
		for _, value := range []string{"a; touch x", "x[$(touch x)]", "a b"} {
			if text, _, wrong, why := s.filled(script, Case{"v": value, "s": "sh"}); wrong != "v" || why == "" {
				t.Errorf("%.60s with %q: it becomes %.80s", script, value, text)
			}
		}
		if _, variables, wrong, why := s.filled(script, Case{"v": "310", "s": "sh"}); wrong != "" || len(variables) > 0 {
			t.Errorf("%.60s with a plain word: %s", script, why)
		}
	}
	for _, script := range []string{"python3 model.py --title ${case.v}", "sh ./run.sh ${case.v}", "${case.v}/bin/model x", "./m >'${case.v}' 2>&1 && ./n", "sh -c 'x'\n./m ${case.v}", "while read -r x; do ./m \"$x\" ${case.v}; done <in", "./m read ${case.v}"} {
		if _, _, wrong, why := readScript(script).filled(script, Case{"v": "a; b"}); wrong != "" {
			t.Errorf("%s: %s", script, why)
		}
	}
	for script, good := range map[string]bool{
		"tar xf a.tar ${case.v}": false, `tar xf a.tar "${case.v}"`: false, "tar xf a.tar '${case.v}b'": false, "tar xf a.tar $X${case.v}": false, `tar xf a.tar ""${case.v}`: false, "tar xf a.tar ${case.e}${case.v}": false,
		"tar xf a.tar ${case.d}${case.e}": false, "tar xf a.tar {b,${case.v}}": false, "for x in ${case.v}; do tar xf a.tar $x; done": false, "${case.v} x": false,
		"./m --x=${case.v}": true, "./m a${case.v}": true, "./m 'a'${case.v}": true, `./m "a ${case.v}"`: true, "X=${case.v} ./m": true, "./m >${case.v}": true,
	} {
		_, _, wrong, why := readScript(script).filled(script, Case{"v": "--checkpoint-action=exec=sh p", "e": "", "d": "-x"})
		if good != (wrong == "") || !good && why != whyOption {
			t.Errorf("%s: %q, %s", script, wrong, why)
		}
	}
	for _, list := range []string{"[sh, -c, 'm ${case.v}']", "['${case.v}']", "[m, '--x=${case.v}']"} {
		for value, good := range map[string]bool{"'a; b'": false, "''": false, "\"a'b\"": false, "a.b": true} {
			if _, err := arrayDraft("{cases: [{v: "+value+"}]}", "run: "+list).Case(1).Finish(); good != (err == nil) || !good && !core.IsKind(err, core.Invalid) {
				t.Errorf("%s with %s: %v", list, value, err)
			}
		}
	}
}
