package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
)

func pointDir(i int) string { return "point-" + strconv.Itoa(i) }

// Together takes measurements of one environment. Points whose jobs differ in their command alone
// share a container or guest, in which the commands run one after the other, each in a directory
// of its own. It implements runner.Runner.Together.
func (t *Taker) Together(ctx context.Context, all []runner.Measurement) ([]record.Row, error) {
	shells, err := t.shells(all)
	if err != nil {
		return nil, err
	}
	rows := make([]record.Row, len(all))
	for _, at := range shells {
		part := make([]runner.Measurement, len(at))
		for i, n := range at {
			part[i] = all[n]
		}
		taken, err := t.share(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, n := range at {
			rows[n] = taken[i]
		}
	}
	return rows, nil
}

// Containers returns how many containers or guests all points of an environment take together.
func (t *Taker) Containers(points []record.Point, environment string) (int, error) {
	var all []runner.Measurement
	for _, p := range points {
		if slices.Contains(p.Environments, environment) {
			all = append(all, runner.Measurement{Point: p, Environment: environment})
		}
	}
	shells, err := t.shells(all)
	return len(shells), err
}

// shells are the numbers of the measurements that share each container, in their order.
func (t *Taker) shells(all []runner.Measurement) (shells [][]int, err error) {
	at := map[string]int{} // by the job without its command
	for n, m := range all {
		job, err := t.Job(m.Point, m.Environment, "")
		if err != nil {
			return nil, err
		}
		job.Run = nil
		text, err := json.Marshal(job)
		if err != nil {
			return nil, fmt.Errorf("compare the jobs of %s: %w", m.Environment, err)
		}
		i, is := at[string(text)]
		if !is {
			i, shells = len(shells), append(shells, nil)
			at[string(text)] = i
		}
		shells[i] = append(shells[i], n)
	}
	return shells, nil
}

// share takes measurements in one container.
func (t *Taker) share(ctx context.Context, all []runner.Measurement) ([]record.Row, error) {
	work, err := os.MkdirTemp(t.Dir, workPrefix) //nolint:forbidigo // the user's own directory
	if err != nil {
		return nil, err
	}
	defer fsutil.RemoveAll(work)
	commands := make([]string, len(all))
	for i, m := range all {
		job, err := t.Job(m.Point, m.Environment, "")
		if err == nil && job.Run == nil {
			err = errors.New("points that share a container need a `run` command")
		}
		if err != nil {
			return nil, err
		}
		commands[i] = commandText(job.Run)
		if err := os.Mkdir(filepath.Join(work, pointDir(i)), 0o700); err != nil { //nolint:forbidigo // the user's own directory
			return nil, err
		}
	}
	job, err := t.Job(all[0].Point, all[0].Environment, work)
	if err == nil {
		err = inSequence(job, commands, work)
	}
	if err != nil {
		return nil, err
	}
	whole, outcome, output, err := t.launch(ctx, all[0], job)
	if err != nil {
		return nil, err
	}
	rows := make([]record.Row, len(all))
	for i, m := range all {
		rows[i] = whole
		rows[i].Flags, rows[i].Shared, rows[i].Seconds = slices.Clone(whole.Flags), len(all), whole.Seconds/float64(len(all))
		if i > 0 { // one of them suffices
			rows[i].VMCommand = ""
		}
		if outcome.Failed != "" {
			fail(&rows[i], failure(outcome, output))
			err = t.log(&rows[i], m, output, outcome.Failed)
		} else {
			err = t.readPoint(ctx, &rows[i], m, outcome, filepath.Join(work, pointDir(i)), job)
		}
		outcome.hideRow(&rows[i])
		if err != nil {
			return nil, err
		}
	}
	return rows, ctx.Err()
}

// readPoint fills in the figures of one of the commands of a container, and keeps its output.
func (t *Taker) readPoint(ctx context.Context, row *record.Row, m runner.Measurement, o Outcome, dir string, job *spec.Job) error {
	output, err := readOutput(dir, copyOutput)
	output = o.hidden(output)
	var w window
	var code string
	if err == nil {
		w, code, err = readWindow(dir)
	}
	if err == nil && code != "0" {
		o.Failed = "the command ended with code " + code
		err = failure(o, output)
	}
	if err == nil {
		if slices.Contains(t.Study.Fair, coldFiles) {
			row.Flags = append(row.Flags, warm([][]byte{output}, job.VM != nil, t.kernels(job))...)
		}
		o.Compute = time.Duration((w.end - w.begin) * float64(time.Second))
		err = t.read(ctx, row, o, output, dir)
	}
	fail(row, err)
	if err := t.log(row, m, output, o.Failed); err != nil {
		return err
	}
	return t.keepFiles(row, o, dir)
}

// inSequence changes a job so that commands run one after the other, each in a directory of its
// own with links to the files of the working directory. The outputs of command i arrive in
// dir/point-i. A command that fails leaves the others alone.
func inSequence(job *spec.Job, commands []string, dir string) error {
	var outputs []spec.Output
	for i := range commands {
		for _, o := range job.Outputs {
			from, err := inWorkdir(job, o.From)
			if err != nil {
				return err
			}
			// A command that failed has no outputs, which its code and its figures show.
			outputs = append(outputs, spec.Output{From: path.Join(job.Workdir, pointDir(i), from), To: filepath.Join(dir, pointDir(i)), Optional: true, Replace: o.Replace})
		}
		for _, name := range []string{copyOutput, copyTimes} {
			outputs = append(outputs, spec.Output{From: path.Join(job.Workdir, pointDir(i), name), To: filepath.Join(dir, pointDir(i))})
		}
	}
	job.Outputs = outputs
	text := sequenceScript(commands)
	job.Run = &spec.Command{Shell: text, Argv: []string{"/bin/sh", "-c", text}}
	return nil
}

// sequenceScript runs commands one after the other. Of each there are its output, and its times
// in seconds since the boot with its code.
func sequenceScript(commands []string) string {
	var b strings.Builder
	for i, c := range commands {
		fmt.Fprintf(&b, "cat > point-job-%d <<'BEE_END_OF_JOB'\n%s\nBEE_END_OF_JOB\n", i, c)
	}
	fmt.Fprintf(&b, `i=0
while [ $i -lt %d ]; do
	mkdir point-$i || exit 1
	for file in *; do
		case $file in point-*) ;; *) ln -s "../$file" point-$i/ ;; esac
	done
	cd point-$i || exit 1
	read begin rest < /proc/uptime
	/bin/sh ../point-job-$i > %s 2>&1
	code=$?
	read end rest < /proc/uptime
	cd ..
	echo "$begin $end $code" > point-$i/%s
	i=$((i+1))
done
`, len(commands), copyOutput, copyTimes)
	return b.String()
}
