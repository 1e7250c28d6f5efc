"""The closed loop: record, simulate, assess, calibrate, explore and confirm in one call."""
