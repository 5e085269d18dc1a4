package config

import "time"

// limiting checks what apps may use.
func (v *validator) limiting(c *Config) {
	v.limits(c, &c.Limits.App, "limits.app")
	v.limits(c, &c.Limits.Token, "limits.token")
}

func (v *validator) limits(c *Config, l *Limits, section string) {
	if l.Rate == 0 {
		if l.Burst > 0 {
			v.fault(section+".burst", "does nothing without rate")
		}
		if l.Per != 0 && l.Per != time.Second {
			v.fault(section+".per", "does nothing without rate")
		}
	}
	if l.Per > time.Second && l.Per%time.Second != 0 {
		v.fault(section+".per", "is not in whole seconds, which is how callers are told of it")
	}
	if len(c.Redis.Addresses) > 0 {
		return
	}
	for _, counted := range []option{{"rate", l.Rate > 0}, {"daily", l.Daily > 0}, {"monthly", l.Monthly > 0}} {
		if counted.set {
			v.fault(keyPath(section, counted.key), "is counted in Redis, for all gateways together: redis.addresses is missing")
		}
	}
}

// warnLimits finds limits that never hold.
func (v *validator) warnLimits(l *Limits, section string) {
	if l.Monthly > 0 && l.Daily > l.Monthly {
		v.fault(section+".daily", "never holds: the whole month has fewer, %d", l.Monthly)
	}
	if l.Rate > 0 && l.Per > 0 && l.Daily > 0 {
		if most := float64(l.Rate)/l.Per.Seconds()*24*60*60 + float64(max(l.Burst, l.Rate)); float64(l.Daily) > most {
			v.fault(section+".daily", "never holds: the rate lets through %.0f a day", most)
		}
	}
}
