LAST: int
LOOK_UP: int
FROM_SEED: int
FROM_DEFAULT: int

def seed_default(seed: int | None, modifier: int) -> None: ...
