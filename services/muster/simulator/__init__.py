"""The cores of the other services in virtual time: scenarios, traces, a synthetic week. Pure: texts in, values out."""
