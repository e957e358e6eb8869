package report

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/state/event"
)

func transferText(e event.Event) string {
	switch f := e.Fields.(type) {
	case event.CheckpointStuck:
		return fmt.Sprintf("the checkpoint stays on site %s: %s", f.Site, f.Cause.Message)
	case event.CheckpointDeferred:
		return fmt.Sprintf("the checkpoint waits on site %s (%s); trying again at %s", f.Site, f.Cause.Message, clock(f.Until))
	case event.CheckpointDamaged:
		text := fmt.Sprintf("warning: the checkpoint of attempt %d is damaged and not used", f.Of)
		if f.Next > 0 {
			text += fmt.Sprintf("; the one before, of attempt %d, is tried", f.Next)
		}
		return text
	case event.CheckpointChanged:
		return fmt.Sprintf("warning: %s is not the checkpoint that was kept there, and is not used", f.Place)
	case event.CheckpointsDamaged:
		return "warning: no checkpoint is undamaged; the run starts again"
	case event.CheckpointsRemoved:
		return fmt.Sprintf("removed %d checkpoints of %d MB %s: all outputs are here (`checkpoint: {keep: true}` keeps them)", f.Count, f.Bytes/1e6, storeText(f.Store))
	case event.CheckpointsStay:
		return fmt.Sprintf("warning: the checkpoints of the run, which it does not need any more, stay %s until `bee rm`: %s", storeText(f.Store), f.Cause.Message)
	case event.VolumeKept:
		return fmt.Sprintf("the job wrote no checkpoint in time, and there is no earlier one; its volume, perhaps half written, is kept in %s until `bee rm`", f.Path)
	case event.VolumeImageKept:
		return fmt.Sprintf("the volume of the lost attempt is kept in %s: `bee data unload` copies it out of there", f.Path)
	case event.VolumeReused:
		return fmt.Sprintf("continuing on the volume of attempt %d", f.Of)
	case event.VolumeNotReused:
		return fmt.Sprintf("the checkpoint is transferred, as the volume of attempt %d cannot be reused: %s", f.Of, f.Cause.Message)
	case event.Route:
		if f.Direct {
			text := "direct transfer " + between(f.From, f.To)
			if f.Address != "" {
				text += " (" + f.Address + ")"
			}
			return text
		}
		text := "relayed transfer " + between(f.From, f.To)
		if f.Cause != nil {
			text += ": " + f.Cause.Message
		}
		return text
	case event.RemoteInput:
		if f.Cause != nil {
			return fmt.Sprintf("relayed transfer of %s to %s: %s", f.Input, f.Site, f.Cause.Message)
		}
		return fmt.Sprintf("direct transfer of %s to %s", f.Input, f.Site)
	case event.RunInput, event.VolumeLent, event.VolumePassed, event.VolumeReleased:
		return volumeText(f)
	case event.DirectFailed:
		return fmt.Sprintf("the checkpoint comes from the submitting machine, as the direct transfer %s failed: %s", between(f.From, f.To), f.Cause.Message)
	case event.ConnectionLost:
		return fmt.Sprintf("the connection to site %s broke (%s); trying again for %s", f.Site, f.Cause.Message, f.Limit)
	}
	return ""
}

func between(from, to string) string { return "from " + placeText(from) + " to " + placeText(to) }

func placeText(site string) string {
	if site == "" {
		return "the store"
	}
	return site
}
