package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
)

// Files of a copy, or of a point that shares a container, in its directory.
const (
	copyOutput = "copy.out"   // what it printed
	copyTimes  = "copy.times" // its begin and end in seconds since the boot, and its code
)

// leastOverlap is the least share of the longest copy in which all copies ran.
const leastOverlap = 0.9

func copyDir(i int) string { return "copy-" + strconv.Itoa(i) }

// copies changes a job so that its command runs n times at once: on the job's nodes by
// turns, each in a directory of its own, from one moment on. The outputs of copy i arrive
// in dir/copy-i.
func copies(job *spec.Job, n int, dir string) error {
	if job.Run == nil {
		return errors.New("copies need a `run` command")
	}
	var outputs []spec.Output
	for i := range n {
		for _, o := range job.Outputs {
			from, err := inWorkdir(job, o.From)
			if err != nil {
				return err
			}
			o.From, o.To = path.Join(copyDir(i), from), filepath.Join(dir, copyDir(i))
			outputs = append(outputs, o)
		}
		for _, name := range []string{copyOutput, copyTimes} {
			outputs = append(outputs, spec.Output{From: path.Join(copyDir(i), name), To: filepath.Join(dir, copyDir(i))})
		}
	}
	for i := range outputs {
		if job.Workdir != "" {
			outputs[i].From = path.Join(job.Workdir, outputs[i].From)
		}
	}
	job.Outputs = outputs
	text := copiesScript(commandText(job.Run), n)
	job.Run = &spec.Command{Shell: text, Argv: []string{"/bin/sh", "-c", text}}
	env := map[string]string{"BEE_AGENT": "/.bee/rsh"}
	for k, v := range job.Env {
		env[k] = v
	}
	job.Env = env
	return nil
}

// commandText is a command as a shell reads it.
func commandText(c *spec.Command) string {
	if c.Shell != "" {
		return c.Shell
	}
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		words[i] = shell.Quote(w)
	}
	return strings.Join(words, " ")
}

// inWorkdir is an output relative to the working directory.
func inWorkdir(job *spec.Job, from string) (string, error) {
	if !path.IsAbs(from) {
		return from, nil
	}
	rest, is := strings.CutPrefix(path.Clean(from), path.Clean(job.Workdir)+"/")
	if job.Workdir == "" || !is {
		return "", fmt.Errorf("the output %s is not below the working directory, so that each copy would replace it", from)
	}
	return rest, nil
}

// copiesScript runs a command n times. Copies meet before they begin, and the last to be
// ready lets all begin. A copy that cannot be started ends the wait.
func copiesScript(command string, n int) string {
	return fmt.Sprintf(`n=%d
cat > copy-job <<'BEE_END_OF_JOB'
%s
BEE_END_OF_JOB
cat > copy-start <<'BEE_END_OF_START'
cd "$1" || exit 1
: > ../copy-ready-$2
while [ ! -e ../copy-go ]; do sleep 0.01; done
read begin rest < /proc/uptime
/bin/sh ../copy-job > %s 2>&1
code=$?
read end rest < /proc/uptime
echo "$begin $end $code" > %s
BEE_END_OF_START
where=$PWD
nodes=$(echo "$BEE_NODELIST" | tr , ' ')
i=0
pids=
while [ $i -lt $n ]; do
	for node in $nodes; do
		[ $i -lt $n ] || break
		mkdir copy-$i
		for file in *; do
			case $file in copy-*) ;; *) ln -s "../$file" copy-$i/ ;; esac
		done
		if [ "$BEE_NUM_NODES" = 1 ]; then
			/bin/sh copy-start copy-$i $i &
		else
			"$BEE_AGENT" $node "cd '$where' && /bin/sh copy-start copy-$i $i" &
		fi
		pids="$pids $!"
		i=$((i+1))
	done
done
while :; do
	ready=0
	for file in copy-ready-*; do [ -e "$file" ] && ready=$((ready+1)); done
	[ $ready -lt $n ] || break
	for pid in $pids; do kill -0 $pid 2>/dev/null || { echo "a copy could not be started"; exit 1; }; done
	sleep 0.01
done
: > copy-go
wait
bad=0
i=0
while [ $i -lt $n ]; do
	begin= end= code=1
	[ -e copy-$i/%[4]s ] && read begin end code < copy-$i/%[4]s
	if [ "$code" != 0 ]; then
		echo "copy $i ended with $code:"; cat copy-$i/%[3]s; bad=1
	fi
	i=$((i+1))
done
exit $bad
`, n, command, copyOutput, copyTimes)
}

// readCopies fills in the figures of all copies: their sum or their mean, and those of each
// with its number as the key.
func (t *Taker) readCopies(ctx context.Context, row *record.Row, o Outcome, n int, work string) error {
	all := map[string][]record.Figure{}
	var windows []window
	for i := range n {
		dir := filepath.Join(work, copyDir(i))
		output, err := readOutput(dir, copyOutput)
		output = o.hidden(output)
		if err == nil {
			var w window
			w, _, err = readWindow(dir)
			windows = append(windows, w)
		}
		var one record.Row
		if err == nil {
			err = t.read(ctx, &one, o, output, dir)
		}
		if err != nil {
			return fmt.Errorf("copy %d: %w", i, err)
		}
		for name, figures := range one.Metrics {
			all[name] = append(all[name], figures...)
		}
	}
	row.Metrics = map[string][]record.Figure{}
	for name, figures := range all {
		if t.Study.Metrics[name].Builtin != "" { // is of the whole run
			row.Metrics[name] = figures[:1]
			continue
		}
		row.Metrics[name] = joined(figures, t.Study.Copies.Metric == "sum")
		if !hasSweep(t.Study, name) {
			for i, f := range figures {
				row.Metrics[name] = append(row.Metrics[name], record.Figure{Key: copyDir(i), Value: f.Value})
			}
		}
	}
	if len(row.Hosts) > 1 {
		row.Flags = append(row.Flags, "the clocks of several hosts do not say how long the copies ran together")
	} else if overlap(windows) < leastOverlap {
		row.Flags = append(row.Flags, "the copies ran together for less than 90 % of the time of the longest")
	}
	return nil
}

func hasSweep(s *study.Study, name string) bool { m := s.Metrics[name]; return m.Sweep() }

// joined is the sum, or the mean, of the figures of each key, in the order of the keys.
func joined(figures []record.Figure, sum bool) []record.Figure {
	var out []record.Figure
	count := map[string]int{}
	at := map[string]int{}
	for _, f := range figures {
		i, is := at[f.Key]
		if !is {
			i = len(out)
			at[f.Key], out = i, append(out, record.Figure{Key: f.Key})
		}
		out[i].Value += f.Value
		count[f.Key]++
	}
	if !sum {
		for i := range out {
			out[i].Value /= float64(count[out[i].Key])
		}
	}
	return out
}

type window struct{ begin, end float64 }

// readWindow reads when a command ran, and its code.
func readWindow(dir string) (w window, code string, err error) {
	text, err := readOutput(dir, copyTimes)
	if err != nil {
		return window{}, "", err
	}
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return window{}, "", fmt.Errorf("%s has %d fields, expected 3", copyTimes, len(fields))
	}
	begin, err := strconv.ParseFloat(fields[0], 64)
	end, err2 := strconv.ParseFloat(fields[1], 64)
	return window{begin, end}, fields[2], errors.Join(err, err2)
}

// overlap is the time in which all ran, as a share of that of the longest.
func overlap(all []window) float64 {
	var from, longest float64
	to := 0.0
	for i, w := range all {
		if i == 0 {
			from, to = w.begin, w.end
		}
		from, to, longest = max(from, w.begin), min(to, w.end), max(longest, w.end-w.begin)
	}
	if longest <= 0 { // shorter than the clock can report
		return 1
	}
	return (to - from) / longest
}

// makeCopyDirs makes the directories in which the outputs of copies arrive.
func makeCopyDirs(work string, n int) error {
	for i := range n {
		if err := os.Mkdir(filepath.Join(work, copyDir(i)), 0o700); err != nil { //nolint:forbidigo // the user's own directory
			return err
		}
	}
	return nil
}
