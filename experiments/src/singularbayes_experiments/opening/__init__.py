"""When the noise of a posterior should open: the trial that chose the library's defaults, in JAX alone.

Many networks with settings and seeds of their own train in one program, which is why the library is not used. Its
factors are: orthogonal starts with Glorot's variance, prior N(0, 0.3²), means at 0.4 of the rate, biases without noise.
plan.yaml says what is compared and how the choice is made; it was written before the first run. No test row is read.

    python -m singularbayes_experiments.opening.run FOLDER_OF_ARRAYS ROWS.jsonl --tasks mnist_1000 wine
"""
