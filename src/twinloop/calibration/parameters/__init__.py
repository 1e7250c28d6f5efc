"""The parameters of a calibration: their kinds, their space, and the values they set."""
